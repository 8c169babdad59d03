// The control lane: a few slots behind the gradient in the one message of a step, so that
// every rank learns the loss and the reasons to stop at the same step, at no extra
// latency.
//
// All slots are summed by the same reduction as the gradient, in its element type T:
//   0..4   stop reasons, one slot each: how many ranks raise it
//   5..7   non-finite count, three digits of 12 bits
//   8, 9   loss, high and low part
// A float holds integers below 2^24 exactly, so sums of 12-bit digits are exact and do
// not depend on the order for up to 4096 ranks. The high part of the loss keeps half of
// the mantissa only: sums of such numbers of similar size are exact too, and the low part
// carries the rest, which leaves about 35 bits in float. Flags and counts have their own
// slots and never pass through the gradient, where a NaN would take them along.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <limits>
#include <span>

namespace kan::parallel {

/// Reasons to stop or to write, as seen by one rank, or by any rank after the reduction.
struct StopFlags {
  bool signal_stop = false;        ///< checkpoint, then stop
  bool signal_checkpoint = false;  ///< checkpoint, go on
  bool stop_now = false;           ///< file stop_now in the run directory
  bool output_now = false;         ///< file output_now in the run directory
  bool walltime = false;  ///< time limit; counted from rank 0 only, which has the clock
  bool operator==(const StopFlags&) const = default;
  StopFlags& operator|=(const StopFlags& other) {
    signal_stop |= other.signal_stop;
    signal_checkpoint |= other.signal_checkpoint;
    stop_now |= other.stop_now;
    output_now |= other.output_now;
    walltime |= other.walltime;
    return *this;
  }
};

/// What a rank puts into the lane. loss_sum: sum over its rows; nonfinite: how many of
/// its values were not finite.
struct LaneIn {
  double loss_sum = 0;
  std::int64_t nonfinite = 0;
  StopFlags stop;
};

/// What every rank reads after the reduction: sums, and flags raised by any rank.
struct LaneOut {
  double loss_sum = 0;
  std::int64_t nonfinite = 0;
  StopFlags stop;
};

inline constexpr int kLaneSlots = 10;
inline constexpr int kLaneMaxRanks = 4096;
inline constexpr std::int64_t kLaneMaxCount = (std::int64_t{1} << 36) - 1;

/// A rank's entry made safe to add: a non-finite loss (or one so large that the sum over
/// ranks could overflow T) becomes 0 and is counted, counts are capped at kLaneMaxCount,
/// and only rank 0 keeps the time limit.
template <class T>
KOKKOS_FUNCTION LaneIn sanitized(LaneIn in, int rank) {
  constexpr double kLimit = std::numeric_limits<T>::max() / (2.0 * kLaneMaxRanks);
  if (!(in.loss_sum >= -kLimit && in.loss_sum <= kLimit)) {
    in.loss_sum = 0;
    in.nonfinite = in.nonfinite > 0 ? in.nonfinite : 1;
  }
  if (in.nonfinite < 0) in.nonfinite = 0;
  if (in.nonfinite > kLaneMaxCount) in.nonfinite = kLaneMaxCount;
  if (rank != 0) in.stop.walltime = false;
  return in;
}

/// Writes the ten slots; in must be sanitized.
template <class T>
KOKKOS_FUNCTION void encode_lane(const LaneIn& in, T* slots) {
  slots[0] = in.stop.signal_stop;
  slots[1] = in.stop.signal_checkpoint;
  slots[2] = in.stop.stop_now;
  slots[3] = in.stop.output_now;
  slots[4] = in.stop.walltime;
  for (int digit = 0; digit < 3; ++digit) {
    slots[5 + digit] = static_cast<T>((in.nonfinite >> (12 * digit)) & 0xfff);
  }
  constexpr int kCut = 53 - std::numeric_limits<T>::digits / 2;  // bits of a double
  const auto bits = Kokkos::bit_cast<std::uint64_t>(in.loss_sum);
  const auto high = Kokkos::bit_cast<double>(bits >> kCut << kCut);
  slots[8] = static_cast<T>(high);
  slots[9] = static_cast<T>(in.loss_sum - high);
}
template <class T>
void encode_lane(const LaneIn& in, std::span<T, kLaneSlots> slots) {
  encode_lane(in, slots.data());
}

/// Reads the ten slots, after they were summed over at most kLaneMaxRanks ranks.
template <class T>
KOKKOS_FUNCTION LaneOut decode_lane(const T* slots) {
  LaneOut out;
  out.stop.signal_stop = slots[0] > 0;
  out.stop.signal_checkpoint = slots[1] > 0;
  out.stop.stop_now = slots[2] > 0;
  out.stop.output_now = slots[3] > 0;
  out.stop.walltime = slots[4] > 0;
  for (int digit = 0; digit < 3; ++digit) {
    out.nonfinite += static_cast<std::int64_t>(slots[5 + digit]) << (12 * digit);
  }
  out.loss_sum = static_cast<double>(slots[8]) + static_cast<double>(slots[9]);
  return out;
}
template <class T>
LaneOut decode_lane(std::span<const T, kLaneSlots> slots) {
  return decode_lane(slots.data());
}

}  // namespace kan::parallel
