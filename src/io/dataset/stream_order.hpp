// Order in which a file's rows are met when they do not fit into memory, as functions of
// the file, seeds and epoch, never of ranks.
//
//   chunks    the rows asked for are cut into chunks of neighbouring rows, of a size that
//             reads well; a part of them, drawn by data/seed, is set apart for validation
//             and test
//   sequence  an epoch's order of the training chunks, drawn by run/seed and the epoch
//   windows   W positions of the sequence each, the last one fewer; rows are shuffled
//             within a window, so that one window in memory is enough
// Without shuffle the sequence is the file's order, and windows keep it.
#pragma once

#include <cstdint>
#include <vector>

#include "io/dataset/dataset.hpp"
#include "parallel/partition.hpp"

namespace kan::io {

/// Rows [begin, begin + rows) of a file.
struct RowBlock {
  std::int64_t begin = 0, rows = 0;
  bool operator==(const RowBlock&) const = default;
};

/// Rows that are read in one call: about 1 MiB of fp64. columns: inputs and targets.
std::int64_t piece_rows(std::int64_t columns);

/// Rows of a chunk: a piece, or whole chunks of the file (file_chunk rows; 0: it has
/// none) where these are not much larger.
std::int64_t stream_chunk_rows(std::int64_t columns, std::int64_t file_chunk);

struct StreamSplit {
  std::vector<RowBlock> train, validation, test;  ///< each in the order of the file
};

/// Cuts rows [range.begin, range.end) into chunks. Test and validation are the first
/// floor(fraction rows) rows of a seeded order of chunks, test before validation, so two
/// chunks at most are cut. Errors: held_out_rows.
StreamSplit split_chunks(const RowRange& range, std::int64_t chunk_rows,
                         double validation, double test, std::uint64_t seed);

class StreamOrder {
 public:
  StreamOrder(std::vector<RowBlock> chunks, std::uint64_t seed, bool shuffle);

  std::int64_t rows() const { return start_.back(); }
  /// Makes the sequence of an epoch.
  void start(std::int64_t epoch);
  /// The rows of the file that stand at positions [begin, end) of the sequence, in order.
  std::vector<RowBlock> blocks(const parallel::Range& positions) const;
  /// Order of the rows in a window of the sequence: its ith row in the epoch is the one
  /// at position window.begin + order[i] of the sequence.
  std::vector<std::uint32_t> window_order(const parallel::Range& window) const;

 private:
  std::vector<RowBlock> chunks_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t epoch_ = -1;
  std::vector<std::uint32_t> sequence_;  ///< chunk at each place of the sequence
  std::vector<std::int64_t> start_;      ///< its first position; the last entry: all rows
};

}  // namespace kan::io
