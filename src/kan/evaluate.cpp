// Metrics and predictions of a whole set. The rows are cut into leaves whatever the
// number of ranks, each rank takes a contiguous range of leaves, and leaf losses are
// gathered and added along the one tree: the loss has the same bits for every number of
// ranks.
#include <algorithm>
#include <limits>

#include "kan/trainer.hpp"
#include "parallel/partition.hpp"

namespace kan {
namespace {

constexpr std::int64_t kRowsPerLeaf = 256;

// Every rank's rows of the predictions to all ranks.
template <class T>
void gather_rows(parallel::Communicator& communicator, std::int64_t rows, int leaves,
                 const View2<T>& prediction) {
  const std::size_t out = prediction.extent(1);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), prediction);
  std::vector<std::size_t> counts;
  std::vector<T> mine;
  for (int r = 0; r < communicator.size(); ++r) {
    const parallel::Range own = parallel::rank_leaves(leaves, communicator.size(), r);
    const std::int64_t begin = leaf_begin(own.begin, rows, leaves);
    const std::int64_t end = leaf_begin(own.end, rows, leaves);
    counts.push_back(std::size_t(end - begin) * out);
    if (r == communicator.rank())
      mine.assign(host.data() + begin * std::int64_t(out),
                  host.data() + end * std::int64_t(out));
  }
  communicator.allgatherv(std::span<const T>(mine),
                          std::span<T>(host.data(), host.size()), counts);
  Kokkos::deep_copy(prediction, host);
}

}  // namespace

template <class T>
Metrics evaluate(const Exec& exec, Engine<T>& engine,
                 parallel::Communicator& communicator, const RowSet<T>& set,
                 LossKind loss, const View2<T>& prediction) {
  const std::int64_t rows = set.rows();
  const int out = engine.plan().layers.back().out;
  Batch<T> batch;
  batch.inputs = set.inputs;
  batch.targets = set.targets;
  batch.size = rows;
  batch.leaves = int(std::clamp<std::int64_t>(rows / kRowsPerLeaf, 1, 4096));
  while (batch.leaves & (batch.leaves - 1)) batch.leaves &= batch.leaves - 1;
  const parallel::Range own =
      parallel::rank_leaves(batch.leaves, communicator.size(), communicator.rank());
  batch.first_leaf = int(own.begin);
  batch.last_leaf = int(own.end);
  engine.evaluate(exec, batch, loss, prediction);
  const BatchSums sums = engine.sums(exec);

  std::vector<double> losses(batch.leaves, 0.0);
  for (std::int64_t v = own.begin; v < own.end; ++v) losses[v] = engine.loss(int(v), 1);
  std::vector<std::int64_t> counts(sums.outside);
  counts.push_back(sums.correct);
  if (communicator.size() > 1) {
    communicator.allreduce_sum(std::span<double>(losses));  // one rank's number and zeros
    communicator.allreduce_sum(std::span<std::int64_t>(counts));
    if (prediction.extent(0) > 0)
      gather_rows(communicator, rows, batch.leaves, prediction);
  }
  for (int step = 1; step < batch.leaves; step *= 2)
    for (int b = 0; b < batch.leaves; b += 2 * step) losses[b] += losses[b + step];

  Metrics metrics;
  const bool known = rows > 0 && set.targets.extent(1) > 0;
  const double none = std::numeric_limits<double>::quiet_NaN();
  metrics.loss = known ? losses[0] / loss_terms(loss, double(rows), out) : none;
  metrics.accuracy = known && loss == LossKind::cross_entropy
                         ? double(counts.back()) / double(rows)
                         : none;
  for (std::size_t l = 0; l + 1 < counts.size(); ++l)
    metrics.outside.push_back(
        double(counts[l]) /
        (double(std::max<std::int64_t>(1, rows)) * engine.plan().layers[l].in));
  return metrics;
}

template Metrics evaluate(const Exec&, Engine<float>&, parallel::Communicator&,
                          const RowSet<float>&, LossKind, const View2<float>&);
template Metrics evaluate(const Exec&, Engine<double>&, parallel::Communicator&,
                          const RowSet<double>&, LossKind, const View2<double>&);

}  // namespace kan
