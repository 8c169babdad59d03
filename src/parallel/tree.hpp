// Gradient sums that are bit-equal for every number of ranks up to the number of leaves.
//
// The V leaves of a batch are added up along one binary tree over [0, V) (partition.hpp).
// A rank brings the sums of the maximal aligned subtrees of its own leaves; ranks
// exchange these as bits, and do the remaining additions of the tree themselves, so no
// addition is left to the message library and nothing depends on where a rank border
// lies. With every gradient travels the rank's lane (counts, flags, and one fp64 loss a
// subtree) as raw words.
//   P a power of two: a rank has one subtree, and the rest of the tree is the one over
//     ranks that pairwise sums follow (exchange.hpp).
//   other P, at most 64 kB in all: one allgatherv; every rank adds everything.
//   other P, above: one alltoallv hands rank q segment q of all partial sums; it adds
//     these, and one allgatherv collects the segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kan/types.hpp"
#include "parallel/communicator.hpp"
#include "parallel/control_lane.hpp"
#include "parallel/exchange.hpp"
#include "parallel/partition.hpp"

namespace kan::parallel {

template <class T>
class TreeReducer {
 public:
  /// parameters: length n of the gradient; leaves: V, a power of two. The communicator
  /// must outlive the reducer. Throws code 2 where there are more ranks than leaves.
  TreeReducer(Communicator& communicator, std::int64_t parameters, std::int64_t leaves);

  /// The subtrees of this rank's leaves, in order, at least one.
  const std::vector<Subtree>& subtrees() const { return own_; }
  /// Where this rank's partial sums go: subtree j at [j n, (j+1) n).
  View1<T> partials() const { return partials_; }
  /// Where the sum over all leaves is after reduce(): (n), the place of partial 0.
  View1<T> gradient() const;

  /// Collective. losses: this rank's loss sums, one a subtree; in.loss_sum is not read.
  /// Sums gradient and losses along the tree, after what exec was given before; the other
  /// partial sums are lost.
  LaneOut reduce(const Exec& exec, std::span<const double> losses, const LaneIn& in);

 private:
  /// An addition of the tree: node `into` takes up its right neighbour `from`.
  struct Merge {
    std::size_t into, from;
  };
  enum class Method { pairwise, gather, segments };

  static std::size_t lane_length(std::size_t subtrees);
  void plan_messages();
  void exchange(const LaneWords& lane, std::span<const double> losses);
  LaneOut read_blocks();
  void add_up();

  Communicator& communicator_;
  std::size_t parameters_;
  Method method_ = Method::pairwise;
  std::vector<Subtree> own_;
  std::vector<std::size_t> subtrees_;  ///< how many each rank has
  std::vector<Merge> merges_;          ///< over the subtrees of all ranks
  View1<T> partials_;
  /// Partial sums in host memory, with room for a lane before and behind them; where
  /// kernels run on the host they are partials_. values_: the first element.
  MessageView1<T> staged_;
  T* values_ = nullptr;
  PairwiseSum<T> pairwise_;

  // Of the other methods; lengths in elements. segments_: what each rank adds up, all of
  // the gradient for gather; length_: this rank's.
  std::vector<std::size_t> segments_, sent_lengths_, received_lengths_;
  std::size_t length_ = 0;
  std::vector<T> sent_, received_;
  std::vector<T*> nodes_;       ///< of each subtree: its elements in received_
  std::vector<double> losses_;  ///< of each subtree
};

extern template class TreeReducer<float>;
extern template class TreeReducer<double>;

}  // namespace kan::parallel
