// What a source of data is: a function that reads unscaled rows and can say, for an
// error, where a value stands. A new source is one file with such a function and one line
// in the table of load.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/dataset/dataset.hpp"

namespace kan::io {

/// Which rows are asked for: those of the training source, or of a file of its own.
struct SourceRequest {
  std::string file;
  std::vector<std::string> inputs, targets;
  RowRange row_range;
  std::string split_column;
  std::string key;  ///< key prefix in messages: "" or "validation_" or "test_"
};

/// Unscaled rows, missing values as NaN. where(row, column) names the place of a value:
/// row is an index into set, column counts inputs, then targets.
struct SourceRows {
  DataSet set;
  std::vector<char> is_test;  ///< per row, from the split column; empty without one
  std::function<std::string(std::int64_t row, int column)> where;
};

using ReadSource = SourceRows (*)(const DataOptions&, const DataShape&,
                                  const SourceRequest&);

SourceRows read_function(const DataOptions&, const DataShape&, const SourceRequest&);
SourceRows read_hdf5(const DataOptions&, const DataShape&, const SourceRequest&);
SourceRows read_csv(const DataOptions&, const DataShape&, const SourceRequest&);

/// Error 3 where a file's columns are not those the network takes.
void check_columns(const std::string& file, std::int64_t inputs, std::int64_t targets,
                   const DataShape& shape);

/// Error 8 where rows of this many values exceed data/replicate_below.
void check_bytes(const std::string& what, std::int64_t rows, const DataShape& shape,
                 const DataOptions& options);

/// Error 3 where [begin, end) is not inside 0..rows; sets an open end.
RowRange check_range(const std::string& file, RowRange range, std::int64_t rows);

}  // namespace kan::io
