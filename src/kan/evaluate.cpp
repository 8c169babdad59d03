#include "kan/evaluate.hpp"

#include <algorithm>
#include <limits>

#include "kan/trainer.hpp"

namespace kan {
namespace {

constexpr std::int64_t kRowsPerLeaf = 256;

}  // namespace

EvaluationParts::EvaluationParts(std::int64_t all_rows, int all_ranks)
    : rows(all_rows),
      leaves(int(std::clamp<std::int64_t>(all_rows / kRowsPerLeaf, 1, 4096))),
      ranks(all_ranks) {
  while (leaves & (leaves - 1)) leaves &= leaves - 1;
}

parallel::Range EvaluationParts::own_rows(int rank) const {
  const parallel::Range own = own_leaves(rank);
  return {leaf_begin(own.begin, rows, leaves), leaf_begin(own.end, rows, leaves)};
}

double sum_leaves(parallel::Communicator& communicator, const EvaluationParts& parts,
                  std::vector<double> leaves) {
  const parallel::Range own = parts.own_leaves(communicator.rank());
  std::fill(leaves.begin(), leaves.begin() + own.begin, 0.0);
  std::fill(leaves.begin() + own.end, leaves.end(), 0.0);
  if (communicator.size() > 1)
    communicator.allreduce_sum(std::span<double>(leaves));  // one rank's number and zeros
  for (int step = 1; step < parts.leaves; step *= 2)
    for (int b = 0; b < parts.leaves; b += 2 * step) leaves[b] += leaves[b + step];
  return leaves[0];
}

template <class T>
void gather_rows(parallel::Communicator& communicator, const EvaluationParts& parts,
                 T* values, std::int64_t columns) {
  if (communicator.size() == 1) return;
  std::vector<std::size_t> counts;
  for (int r = 0; r < communicator.size(); ++r)
    counts.push_back(std::size_t(parts.own_rows(r).size() * columns));
  const parallel::Range own = parts.own_rows(communicator.rank());
  const std::vector<T> mine(values + own.begin * columns, values + own.end * columns);
  communicator.allgatherv(std::span<const T>(mine),
                          std::span<T>(values, std::size_t(parts.rows * columns)),
                          counts);
}

template <class T>
EvaluationSums evaluation_sums(const Exec& exec, Engine<T>& engine,
                               parallel::Communicator& communicator,
                               const EvaluationParts& parts, const RowSet<T>& set,
                               std::int64_t first, LossKind loss,
                               const View2<T>& prediction) {
  const parallel::Range own = parts.own_leaves(communicator.rank());
  Batch<T> batch;
  batch.inputs = set.inputs;
  batch.targets = set.targets;
  batch.begin = -first;
  batch.size = parts.rows;
  batch.leaves = parts.leaves;
  batch.first_leaf = int(own.begin);
  batch.last_leaf = int(own.end);
  engine.evaluate(exec, batch, loss, prediction);
  const BatchSums& sums = engine.sums(exec);

  std::vector<double> losses(parts.leaves, 0.0);
  for (std::int64_t v = own.begin; v < own.end; ++v) losses[v] = engine.loss(int(v), 1);
  std::vector<std::int64_t> counts(sums.outside);
  counts.push_back(sums.correct);
  EvaluationSums all;
  all.loss = sum_leaves(communicator, parts, losses);
  if (communicator.size() > 1)
    communicator.allreduce_sum(std::span<std::int64_t>(counts));
  all.correct = counts.back();
  counts.pop_back();
  all.outside = std::move(counts);
  return all;
}

template <class T>
Metrics evaluate(const Exec& exec, Engine<T>& engine,
                 parallel::Communicator& communicator, const RowSet<T>& set,
                 LossKind loss, const View2<T>& prediction) {
  const std::int64_t rows = set.rows();
  const int out = engine.plan().layers.back().out;
  const EvaluationParts parts(rows, communicator.size());
  const EvaluationSums sums =
      evaluation_sums(exec, engine, communicator, parts, set, 0, loss, prediction);
  if (communicator.size() > 1 && prediction.extent(0) > 0) {
    const auto host =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), prediction);
    gather_rows(communicator, parts, host.data(), out);
    Kokkos::deep_copy(prediction, host);
  }

  Metrics metrics;
  const bool known = rows > 0 && set.targets.extent(1) > 0;
  const double none = std::numeric_limits<double>::quiet_NaN();
  metrics.loss = known ? sums.loss / loss_terms(loss, double(rows), out) : none;
  metrics.accuracy = known && loss == LossKind::cross_entropy
                         ? double(sums.correct) / double(rows)
                         : none;
  for (std::size_t l = 0; l < sums.outside.size(); ++l)
    metrics.outside.push_back(
        double(sums.outside[l]) /
        (double(std::max<std::int64_t>(1, rows)) * engine.plan().layers[l].in));
  return metrics;
}

#define KAN_EVALUATE_INSTANCES(T)                                                \
  template void gather_rows(parallel::Communicator&, const EvaluationParts&, T*, \
                            std::int64_t);                                       \
  template EvaluationSums evaluation_sums(                                       \
      const Exec&, Engine<T>&, parallel::Communicator&, const EvaluationParts&,  \
      const RowSet<T>&, std::int64_t, LossKind, const View2<T>&);                \
  template Metrics evaluate(const Exec&, Engine<T>&, parallel::Communicator&,    \
                            const RowSet<T>&, LossKind, const View2<T>&);
KAN_EVALUATE_INSTANCES(float)
KAN_EVALUATE_INSTANCES(double)
#undef KAN_EVALUATE_INSTANCES

}  // namespace kan
