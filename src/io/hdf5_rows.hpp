// Rows of one dataset read piece by piece, as numbers in fp64. The dataset stays open,
// and its cache has room for the chunks that hold one row, so that neighbouring pieces do
// not decode a chunk twice. Threads: as hdf5.hpp; a piece is one call, for which other
// threads wait.
#pragma once

#include <cstdint>
#include <string>

#include "io/hdf5.hpp"

namespace kan::io {

class Hdf5Rows {
 public:
  /// A dataset (rows) or (rows, ...) of numbers in a file that outlives this.
  Hdf5Rows(const Hdf5File& file, const std::string& name);

  const std::string& name() const { return name_; }
  std::int64_t rows() const { return info_.shape[0]; }
  /// Values of one row.
  std::int64_t columns() const { return columns_; }
  /// Rows of one chunk of the file; 0 where it is not cut into chunks.
  std::int64_t chunk_rows() const { return info_.chunk.empty() ? 0 : info_.chunk[0]; }
  /// Rows [begin, end) to out, row-major. Errors: the file's code, naming dataset and
  /// rows.
  void read(std::int64_t begin, std::int64_t end, double* out) const;

 private:
  const Hdf5File& file_;
  std::string name_;
  Hdf5Info info_;
  std::int64_t columns_ = 1;
  Hdf5Handle set_;
};

}  // namespace kan::io
