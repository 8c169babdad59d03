// The rows of a training run: kept by every rank, or streamed where they are too many.
#pragma once

#include <memory>

#include "io/dataset/stream.hpp"
#include "kan/row_feed.hpp"
#include "kan/trainer.hpp"
#include "run/session.hpp"

namespace kan::run {

struct TrainingData {
  io::DataOptions options;
  io::DataShape shape;
  /// .data: the sets in memory; training rows are among them unless streamed.
  io::StreamedData stream;
  std::int64_t window = 0;  ///< rows of a window; 0: nothing is streamed
  bool streamed() const { return window > 0; }
  io::Data& data() { return stream.data; }
  /// Bytes of one rank for the windows of streamed rows.
  std::int64_t window_bytes(int ranks, std::int64_t number_bytes) const;
  std::int64_t training_rows() const {
    return streamed() ? stream.rows : stream.data.train.rows;
  }
};

/// Collective. Reads the data of the deck, or looks them through where they are to be
/// streamed; compares them between ranks and with those of the checkpoint (stored; null:
/// none), and logs what there is to say. Errors 2, 3, 8.
template <class T>
TrainingData load_training_data(Session& session, const TrainOptions& options,
                                const TrainingState<T>* stored);

/// rows: the training rows, unless streamed.
template <class T>
std::unique_ptr<RowFeed<T>> make_feed(const TrainingData& data, const RowSet<T>& rows,
                                      const TrainOptions& options, const RankParts& parts,
                                      parallel::Communicator& communicator);

}  // namespace kan::run
