// Data sets: where the rows of a training come from, how they are split and scaled.
//
// load() reads one source (function, hdf5, csv: the table in load.cpp), checks every
// value, splits off validation and test rows, and scales. Row values, noise and split are
// functions of the seed and the row's id alone, so every rank that loads holds the same
// data, whatever it asks first. Errors: 2 for what the deck says about the data, 3 for
// the data themselves (file, row, column), 8 for more bytes than data/replicate_below.
// Rows in messages about CSV files are line numbers of the file; elsewhere rows are
// counted from 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kan/state.hpp"

namespace kan::io {

enum class ScalingKind { none, standard, minmax };
enum class Nonfinite { error, drop };
enum class HasHeader { automatic, yes, no };

/// Rows [begin, end) of a file, counted from 0; end -1: to the last row.
struct RowRange {
  std::int64_t begin = 0, end = -1;
};

/// Reads "a:b", ":b", "a:" or "" (all rows); error 2 naming data/row_range.
RowRange parse_row_range(const std::string& text);

/// A validation or test set: none where all is empty; else a fraction of the training
/// source's rows, or a file. inputs and targets replace those of the training source;
/// where they are given without a file, the file is that of the training source.
struct SetOptions {
  double fraction = 0;
  std::string file;
  std::vector<std::string> inputs, targets;
};

/// Sets fraction or file from the deck's one value: a whole real number is a fraction.
void set_fraction_or_file(SetOptions& set, const std::string& text);

struct DataOptions {
  std::string source;  ///< a name of data_sources()
  std::uint64_t seed = 1;

  // Functions
  std::int64_t rows = 0;                 ///< with those split off for validation and test
  std::vector<std::string> expressions;  ///< one per target
  std::vector<double> low{-1},
      high{1};       ///< sampling box: one for all inputs, or one each
  double noise = 0;  ///< standard deviation, added to every target

  // Files
  std::string file;
  /// HDF5: dataset paths, joined column by column. CSV: columns by name or by number
  /// counted from 1; inputs empty: all columns that are neither targets nor split_column.
  std::vector<std::string> inputs, targets;
  RowRange row_range;  ///< of the training file
  HasHeader has_header = HasHeader::automatic;
  std::string split_column;  ///< CSV column: 1 = test, 0 = train; empty: none

  SetOptions validation, test;
  ScalingKind scale_inputs = ScalingKind::none, scale_targets = ScalingKind::none;
  Nonfinite nonfinite = Nonfinite::error;
  bool shuffle = true;
  std::int64_t replicate_below = std::int64_t{256} << 20;  ///< bytes of all values
};

/// What the network asks of the data. targets is 1 where classes > 0: labels are whole
/// numbers 0 to classes-1. The grid range is what minmax scaling maps to.
struct DataShape {
  int inputs = 0, targets = 0;
  int classes = 0;
  double grid_low = -1, grid_high = 1;
};

/// Rows of one set. row_id is the row's number in its source (counted from 0), ascending.
struct DataSet {
  std::int64_t rows = 0;
  int inputs = 0, targets = 0;
  std::vector<double> x;  ///< (rows, inputs)
  std::vector<double> y;  ///< (rows, targets)
  std::vector<std::string> input_names, target_names;
  bool has_names = false;  ///< the names come from the source, they are not made up
  std::vector<std::int64_t> row_id;
};

/// x and y of all sets are scaled; unscale (scaling.hpp) gives original units back.
struct Data {
  DataSet train, validation, test;
  Scaling input_scaling, target_scaling;
  std::string digest;  ///< xxHash (128 bits, hex) of the unscaled values of all sets
  std::int64_t dropped = 0;  ///< rows left out because of missing or non-finite values
};

/// Scaling is computed from the training rows.
Data load(const DataOptions& options, const DataShape& shape);

/// Scaling is given, as a checkpoint holds it.
Data load(const DataOptions& options, const DataShape& shape,
          const Scaling& input_scaling, const Scaling& target_scaling);

/// Names that DataOptions::source can have.
std::vector<std::string> data_sources();

}  // namespace kan::io
