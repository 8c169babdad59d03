// Metrics and predictions of rows that are read from their file as they are needed: some
// rows after the other in the order of the file, of which every rank reads and computes
// its part. Sums do not depend on the number of ranks.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "io/dataset/stream.hpp"
#include "kan/trainer.hpp"
#include "run/metrics.hpp"

namespace kan::run {

/// Rows of a file and the scaling that a network was trained with.
struct StreamedSet {
  io::StreamReader& reader;
  std::vector<io::RowBlock> blocks;  ///< in order
  const Scaling& input_scaling;
  const Scaling& target_scaling;
};

/// Rows that are evaluated at once such that they fit into `bytes` on a single rank.
std::int64_t rows_at_once(std::int64_t bytes, std::int64_t columns, std::int64_t outputs,
                          std::int64_t number_bytes);

/// Gets some rows at a time, in order: prediction (rows, out), unscaled, logits for
/// classes; target (rows, targets) as in the file.
template <class T>
using UseRows = std::function<void(std::int64_t rows, std::span<const T> prediction,
                                   std::span<const T> target)>;

/// Collective. `most`: rows at once. use: if given, called on every rank. Errors of the
/// reader are thrown on all ranks.
template <class T>
SetMetrics measure_stream(const Exec& exec, Engine<T>& engine,
                          parallel::Communicator& communicator, StreamedSet& set,
                          LossKind loss, std::int64_t most, const UseRows<T>& use = {});

}  // namespace kan::run
