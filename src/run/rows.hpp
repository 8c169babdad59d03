// From a data set on the host, in fp64, to the rows that kernels read.
#pragma once

#include <string>

#include "io/dataset/dataset.hpp"
#include "kan/trainer.hpp"

namespace kan::run {

template <class T>
View2<T> to_device(const std::vector<double>& values, std::int64_t rows, int columns,
                   const char* label) {
  const View2<T> view(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)),
                      rows, columns);
  const auto host = Kokkos::create_mirror_view(view);
  for (std::int64_t k = 0; k < rows * columns; ++k) host.data()[k] = T(values[k]);
  Kokkos::deep_copy(view, host);
  return view;
}

template <class T>
RowSet<T> to_rows(const io::DataSet& set) {
  return {to_device<T>(set.x, set.rows, set.inputs, "kan::run::inputs"),
          to_device<T>(set.y, set.rows, set.targets, "kan::run::targets")};
}

}  // namespace kan::run
