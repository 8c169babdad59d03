// Scaling of columns, y_scaled = (y - shift) / scale, computed in double from training
// rows in row order, so that every rank and thread count finds the same bits.
//   none      shift 0, scale 1
//   standard  shift = mean, scale = population standard deviation
//   minmax    the column's minimum and maximum go to [low, high]; never outside by
//   rounding
// A constant column goes to 0 (standard) or to the middle of [low, high] (minmax).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "io/dataset/dataset.hpp"

namespace kan::io {

/// What a column's scaling is made of. squares: sum of (value - mean)^2.
struct ColumnStatistics {
  double rows = 0;
  double least = HUGE_VAL, most = -HUGE_VAL;
  double mean = 0, squares = 0;
  /// Those of both parts together; the bits depend on the order in which parts are added.
  void add(const ColumnStatistics& other);
};

/// values: (rows, columns), row-major, finite.
std::vector<ColumnStatistics> column_statistics(const std::vector<double>& values,
                                                int columns);

/// Error 3 naming a column whose values are too large to be scaled.
Scaling fit_scaling(ScalingKind kind, const std::vector<ColumnStatistics>& columns,
                    double low, double high, const std::vector<std::string>& names);

/// values: (rows, columns), row-major, finite. Error 3 naming a column whose values are
/// too large to be scaled.
Scaling fit_scaling(ScalingKind kind, const std::vector<double>& values, int columns,
                    double low, double high, const std::vector<std::string>& names);

/// In place; the number of columns is that of the scaling.
void apply_scaling(const Scaling& scaling, std::vector<double>& values);

/// The inverse, y = y_scaled * scale + shift, computed in double.
template <class T>
void unscale(const Scaling& scaling, std::vector<T>& values) {
  const std::size_t columns = scaling.scale.size();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::size_t c = n % columns;
    values[n] = static_cast<T>(static_cast<double>(values[n]) * scaling.scale[c] +
                               scaling.shift[c]);
  }
}

}  // namespace kan::io
