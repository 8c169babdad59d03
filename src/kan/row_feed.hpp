// Where the rows of a training come from: a feed knows the order of an epoch and hands
// out the part of each batch that this rank works on. Rows that fit into memory are kept
// by every rank (ResidentFeed); a feed of larger sets reads ahead and keeps what is
// needed.
//
// The order is a function of seed and epoch, never of ranks. A batch is the rows at
// positions [position, position + rows) of it; which of them a rank works on is said by
// RankParts, the same function on every rank.
#pragma once

#include <cstdint>

#include "kan/engine/engine.hpp"
#include "parallel/partition.hpp"

namespace kan {

/// Scaled rows where kernels run: inputs (rows, in), targets (rows, target columns).
template <class T>
struct RowSet {
  View2<T> inputs, targets;
  std::int64_t rows() const { return inputs.extent(0); }
};

/// Cuts a batch for ranks: into leaves first where sums follow one tree whatever the
/// number of ranks (reproducible), else into even ranges.
struct RankParts {
  bool by_leaves = false;
  int leaves = 1, ranks = 1;
  /// Positions of a batch of `rows`, from 0, that a rank works on; may be empty.
  parallel::Range part(std::int64_t rows, int rank) const {
    if (!by_leaves) return parallel::rank_rows(rows, ranks, rank);
    const parallel::Range own = parallel::rank_leaves(leaves, ranks, rank);
    return {leaf_begin(own.begin, rows, leaves), leaf_begin(own.end, rows, leaves)};
  }
};

template <class T>
class RowFeed {
 public:
  virtual ~RowFeed() = default;

  /// Rows of the training set, over all ranks.
  virtual std::int64_t rows() const = 0;
  /// Collective. Before the first batch of an epoch that this object hands out, which a
  /// restart may have in the middle of it.
  virtual void start_epoch(const Exec& exec, std::int64_t epoch,
                           std::int64_t position) = 0;
  /// Collective; positions ascend within an epoch. own: this rank's part, from 0. Sets
  /// inputs, targets, order and begin such that row i of the batch, for i in own, is at
  /// position begin + i.
  virtual Batch<T> batch(const Exec& exec, std::int64_t position, std::int64_t rows,
                         const parallel::Range& own) = 0;
};

/// All rows in memory, in an order of its own for every epoch where `shuffle` is set.
template <class T>
class ResidentFeed final : public RowFeed<T> {
 public:
  ResidentFeed(RowSet<T> set, std::uint64_t seed, bool shuffle);
  std::int64_t rows() const override { return set_.rows(); }
  void start_epoch(const Exec& exec, std::int64_t epoch, std::int64_t position) override;
  Batch<T> batch(const Exec& exec, std::int64_t position, std::int64_t rows,
                 const parallel::Range& own) override;

 private:
  RowSet<T> set_;
  std::uint64_t seed_;
  bool shuffle_;
  View1<std::uint32_t> order_;
};

extern template class ResidentFeed<float>;
extern template class ResidentFeed<double>;

}  // namespace kan
