// The datasets of data/inputs and of data/targets in one HDF5 file, side by side: what
// load() and the streaming of rows read from. A dataset has shape (rows) for one column,
// or (rows, columns), and any numeric type. Rows are counted from 0, as h5py does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/dataset/source.hpp"
#include "io/hdf5_rows.hpp"

namespace kan::io {

class Hdf5Source {
 public:
  /// Opens the file and checks shapes; reads no row. Errors 2 and 3.
  Hdf5Source(const DataShape& shape, const SourceRequest& request);
  Hdf5Source(const Hdf5Source&) = delete;
  Hdf5Source& operator=(const Hdf5Source&) = delete;

  const std::string& path() const { return file_.path(); }
  /// Rows asked for, inside the file.
  const RowRange& range() const { return range_; }
  /// Most rows that the file stores together; 0 where it does not cut its datasets.
  std::int64_t chunk_rows() const;
  std::vector<std::string> input_names() const { return names_of(inputs_); }
  std::vector<std::string> target_names() const { return names_of(targets_); }

  /// Rows [begin, end) of the file: x (rows, inputs), y (rows, targets).
  void read(std::int64_t begin, std::int64_t end, double* x, double* y) const;
  /// Place of a value in words; columns count inputs, then targets.
  std::string where(std::int64_t row, int column) const;

 private:
  using Parts = std::vector<Hdf5Rows>;
  Parts open_all(const std::vector<std::string>& names, const std::string& key) const;
  static std::int64_t columns_of(const Parts& parts);
  static std::vector<std::string> names_of(const Parts& parts);
  static void read_parts(const Parts& parts, std::int64_t begin, std::int64_t end,
                         double* out);

  Hdf5File file_;
  Parts inputs_, targets_;
  RowRange range_;
};

}  // namespace kan::io
