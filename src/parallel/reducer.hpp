// Sums the gradient of a step over ranks: one flat buffer, one sum.
//
// The buffer holds the gradient of all parameters and behind it the control lane
// (control_lane.hpp). Engines write their gradient straight into it, reduce() fills the
// lane, has the whole added up, and hands back what the lane says. Among one rank there
// is no copy and no message; the results mean the same.
//   buffer: g[0..n) | lane[0..10)
// This is the plain mode: the additions of the tree (exchange.hpp) depend on the number
// of ranks, those of a library on its choices. Sums that are bit-equal for every number
// of ranks: tree.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kan/types.hpp"
#include "parallel/communicator.hpp"
#include "parallel/control_lane.hpp"
#include "parallel/exchange.hpp"

namespace kan::parallel {

template <class T>
class GradientReducer {
 public:
  /// parameters: length of the gradient. messages: lengths of the pieces of the gradient
  /// that are summed one after the other, the lane behind them; none: all in one. The
  /// communicator must outlive the reducer. Throws code 9 for more than 4096 ranks, where
  /// counts would no longer be exact.
  GradientReducer(Communicator& communicator, std::int64_t parameters,
                  Algorithm algorithm = Algorithm::automatic,
                  const std::vector<std::int64_t>& messages = {});

  /// Where the gradient of this rank's rows goes, and the sum over all ranks comes back:
  /// (parameters).
  View1<T> gradient() const;
  /// Gradient and lane: (parameters + kLaneSlots).
  View1<T> buffer() const { return buffer_; }
  /// Who adds; not automatic.
  Algorithm algorithm() const { return algorithm_; }

  /// Collective. Sums the gradient in place after what exec was given before, and the
  /// lane with it. Gradient and result are bit-equal on all ranks when it returns; a NaN
  /// in some rank's gradient arrives in the sum, but never in the lane.
  LaneOut reduce(const Exec& exec, const LaneIn& in);

  /// Collective. The same where kernels have written the lane, and will read it: sums the
  /// buffer in place after what exec was given before.
  void sum(const Exec& exec);

  /// Collective. Sums in place what an epoch has counted: exact for integers whose sum is
  /// below 2^53.
  void reduce_sums(std::span<double> values);

 private:
  void sum_by_tree();
  void sum_by_library(const Exec& exec);
  View1<T> slots() const;

  Communicator& communicator_;
  std::int64_t parameters_;
  Algorithm algorithm_;
  std::vector<std::int64_t> messages_;  ///< lengths that make up the buffer
  View1<T> buffer_;
  MessageView1<T> host_;  ///< the same memory where kernels run on the host
  MessageView1<T> lane_;  ///< so too: the end of the buffer
  PairwiseSum<T> pairwise_;
};

extern template class GradientReducer<float>;
extern template class GradientReducer<double>;

}  // namespace kan::parallel
