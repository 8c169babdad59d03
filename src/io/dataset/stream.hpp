// Training rows that do not fit into memory: an HDF5 set of more bytes than
// data/replicate_below is looked through once, in chunks (stream_order.hpp) of which
// every rank takes a share, and read again as it is needed.
//
// The pass checks every value, and finds the scaling and a digest. Both are put together
// from sections, runs of neighbouring chunks, in the order of the file, so that their
// bits do not depend on ranks. Validation and test sets are kept by every rank.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/dataset/dataset.hpp"
#include "io/dataset/stream_order.hpp"
#include "parallel/communicator.hpp"

namespace kan::io {

class Hdf5Source;

/// Collective. Whether the training rows are to be streamed: HDF5, and too many bytes to
/// be kept by every rank. Rank 0 decides; errors 2 and 3 where its file cannot be used.
bool must_stream(const DataOptions& options, const DataShape& shape,
                 parallel::Communicator& communicator);

/// What every digest of streamed rows begins with: it cannot be compared with that of
/// rows in memory.
inline constexpr const char* kStreamedDigest = "streamed-";

struct StreamedData {
  Data data;                     ///< without training rows, but with their names
  std::vector<RowBlock> chunks;  ///< training rows, in the order of the file
  std::int64_t rows = 0;         ///< of them
  std::int64_t chunk_rows = 0;
  double seconds = 0;  ///< of the pass
};

/// Collective. input_scaling, target_scaling: as a checkpoint holds them; null: from the
/// training rows. Errors, the same on every rank: 2 where the deck asks for what cannot
/// be had for streamed rows, 3 naming the first bad value as load() does, 8 for a
/// validation or test set too large to be kept.
StreamedData open_stream(const DataOptions& options, const DataShape& shape,
                         parallel::Communicator& communicator,
                         const Scaling* input_scaling = nullptr,
                         const Scaling* target_scaling = nullptr);

/// Reads rows of the training file. For one thread at a time.
class StreamReader {
 public:
  /// Errors 2 and 3; 2 for data/nonfinite = drop, which would move rows.
  StreamReader(const DataOptions& options, const DataShape& shape);
  ~StreamReader();

  const Hdf5Source& source() const { return *source_; }
  /// Training rows of the file.
  const RowRange& range() const;

  /// Unscaled rows of a piece: x (rows, inputs), y (rows, targets); may be changed.
  struct Piece {
    std::int64_t begin = 0, rows = 0;
    std::vector<double> x, y;
  };
  /// Reads a block piece by piece; use returns false to stop, then so does read. Errors
  /// 3: rows that cannot be read, and bad values, naming file, dataset and row.
  bool read(const RowBlock& block, const std::function<bool(Piece&)>& use);
  /// Row that the last error of read() is about.
  std::int64_t failed_row() const { return failed_row_; }

 private:
  void check_unchanged() const;
  DataShape shape_;
  std::unique_ptr<const Hdf5Source> source_;
  std::array<std::int64_t, 3> version_{};  ///< size and time of the last change
  Piece piece_;
  std::int64_t failed_row_ = 0;
};

}  // namespace kan::io
