// What a source of data is: a function that reads unscaled rows and can say, for an
// error, where a value stands. A new source is one file with such a function and one line
// in the table of load.cpp.
#pragma once

#include <functional>
#include <optional>
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

/// Error 2 for what the deck says about the data that does not fit together.
void check_options(const DataOptions& options, const DataShape& shape);

/// The training rows, as the deck asks for them.
SourceRequest training_request(const DataOptions& options);

/// Reads the validation and test sets that are not fractions of the training rows,
/// unscaled, into data.
void read_set_files(const DataOptions& options, const DataShape& shape, Data& data);

/// The first value of a row, inputs before targets, that cannot be used, and why.
struct BadValue {
  int column;
  double value;
  std::string objection;
};
std::optional<BadValue> find_bad_value(const double* x, const double* y,
                                       const DataShape& shape);

/// Checks every value, error 3; leaves rows with non-finite ones out where that is asked
/// for, and returns how many. name: of the whole, for messages.
std::int64_t check_values(SourceRows& rows, const DataOptions& options,
                          const DataShape& shape, const std::string& name);

/// Error 3 where a file's columns are not those the network takes.
void check_columns(const std::string& file, std::int64_t inputs, std::int64_t targets,
                   const DataShape& shape);

/// Whether rows of this many values exceed data/replicate_below.
bool more_than_replicated(std::int64_t rows, const DataShape& shape,
                          const DataOptions& options);

/// Scales the sets and keeps the scaling. Error 5 where it has other columns than shape.
void scale(Data& data, const Scaling& inputs, const Scaling& targets,
           const DataShape& shape);

/// Error 8 where that is so.
void check_bytes(const std::string& what, std::int64_t rows, const DataShape& shape,
                 const DataOptions& options);

/// Error 3 where [begin, end) is not inside 0..rows; sets an open end.
RowRange check_range(const std::string& file, RowRange range, std::int64_t rows);

}  // namespace kan::io
