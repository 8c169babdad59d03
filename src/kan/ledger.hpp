// What updates came to, on the way from the kernels to the host. On a device nothing in a
// step may wait for the host: a kernel takes over what the host has set for this step,
// others add up the losses of leaves, write the control lane into the message, judge the
// reduced values (is everything finite, is the gradient clipped) for the optimizer's
// kernel, and leave the outcome in pinned memory, where the host finds it a step or two
// later.
//
// The first update that is not finite stops all later ones: the parameters stay what they
// were before it until the host has read the verdict. On a host backend the same kernels
// run at once; the tests train with them.
#pragma once

#include <cstdint>
#include <functional>

#include "kan/engine/engine.hpp"
#include "kan/optimizer.hpp"
#include "kan/outcome.hpp"
#include "kan/state.hpp"
#include "kan/step.hpp"
#include "kan/types.hpp"

namespace kan {

template <class T>
class Ledger {
 public:
  /// layers: of the network; parameters: length of the gradient.
  Ledger(int layers, std::int64_t parameters);

  /// For the update that is queued or launched next, which must go through all of the
  /// following; its number is set here.
  void set(const Step<T>& step);
  /// Queues: step() is what was set.
  void open(const Queue& queue);
  /// Where kernels read it.
  const Step<T>* step() const { return step_.data(); }
  /// Queues: loss, flags and counts of this rank's leaves to the lane's slots.
  void sum_up(const Queue& queue, const LeafSums& leaves, int rank, T* lane);
  /// Queues: mean of the summed gradient in place, its norm, the verdict, and the outcome
  /// of this update for the host.
  void judge(const Queue& queue, const View1<T>& gradient, double clip_norm,
             const T* lane);
  /// Where kernels read it.
  const Verdict* verdict() const { return verdict_.data(); }

  /// Updates judged or under way whose outcome has not been taken.
  std::int64_t pending() const { return queued_ - taken_; }
  /// The oldest one; waits for it, calling check now and then
  /// with the seconds that it has waited.
  Outcome take(const std::function<void(double)>& check);
  /// Adds what this rank's rows have counted since the last call; fences.
  void take_counts(const Exec& exec, Progress& progress);

 private:
  static constexpr int kSlots = 8;  ///< more than updates under way
  using Pinned = Kokkos::SharedHostPinnedSpace;

  View1<std::int64_t> counts_;  ///< outside per layer, then right classes
  View1<double> partial_;       ///< squared norm, by blocks
  View1<double> own_;           ///< this rank's loss, and whether it is not finite
  Kokkos::View<Verdict, Memory> verdict_;
  Kokkos::View<Step<T>*, Pinned> set_;  ///< update n in slot (n - 1) mod kSlots
  Kokkos::View<Step<T>, Memory> step_;
  Kokkos::View<Outcome*, Pinned> outcomes_;    ///< so too
  Kokkos::View<std::int64_t*, Pinned> stamp_;  ///< updates whose outcome is there
  std::int64_t queued_ = 0, taken_ = 0;
};

extern template class Ledger<float>;
extern template class Ledger<double>;

}  // namespace kan
