// Gradient sums that are bit-equal for every number of ranks up to the number of leaves.
//
// The V leaves of a batch are added up along one binary tree over [0, V) (partition.hpp).
// A rank brings the sums of the maximal aligned subtrees of its own leaves; ranks
// exchange these as bits, and every rank does the remaining additions of the tree itself,
// so no addition is left to the message library and nothing depends on where a rank
// border lies. The message of a step is one allgatherv: each rank's lane (counts, flags,
// and one fp64 loss a subtree, as raw words), then its partial sums. Gradients too long
// for that go in several rounds, each over a range of elements, which changes no
// addition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kan/types.hpp"
#include "parallel/communicator.hpp"
#include "parallel/control_lane.hpp"
#include "parallel/partition.hpp"

namespace kan::parallel {

template <class T>
class TreeReducer {
 public:
  /// parameters: length n of the gradient; leaves: V, a power of two. round_bytes bounds
  /// what a round gathers. The communicator must outlive the reducer. Throws code 2 where
  /// there are more ranks than leaves.
  TreeReducer(Communicator& communicator, std::int64_t parameters, std::int64_t leaves,
              std::size_t round_bytes = std::size_t{32} << 20);

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
  void gather(std::int64_t begin, std::int64_t end, std::span<const std::uint64_t> lane);
  void add_up(std::int64_t length);
  LaneOut read_lanes() const;

  Communicator& communicator_;
  std::int64_t parameters_, round_;
  std::vector<Subtree> own_;
  std::vector<std::size_t> subtree_counts_;  ///< of each rank
  std::vector<Merge> merges_;                ///< over the subtrees of all ranks
  View1<T> partials_;
  decltype(Kokkos::create_mirror_view(std::declval<View1<T>>())) host_;
  std::vector<std::uint64_t> sent_, gathered_;
  std::vector<std::size_t> words_;  ///< of each rank in gathered_
  std::vector<T*> nodes_;           ///< of the round: where each subtree's elements are
};

extern template class TreeReducer<float>;
extern template class TreeReducer<double>;

}  // namespace kan::parallel
