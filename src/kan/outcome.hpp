// What one update came to. Plain data, written by kernels too.
#pragma once

#include <cstdint>

#include "kan/types.hpp"
#include "parallel/control_lane.hpp"

namespace kan {

/// Sums and norm are over the rows of the update's scope (update.hpp).
struct Outcome {
  double loss_sum = 0;
  std::int64_t nonfinite = 0;  ///< ranks whose loss is not finite
  bool own_nonfinite = false;  ///< this rank's loss is one of them
  double norm = 0;             ///< of the mean gradient, before clipping
  parallel::StopFlags stop;    ///< raised by any rank of the scope
  /// Whether the parameters were updated.
  KOKKOS_FUNCTION bool finite() const { return nonfinite == 0 && norm - norm == 0; }
};

/// For the optimizer's kernel: whether to update, and what to multiply the gradient by.
struct Verdict {
  double clip = 1;
  int go = 1;
};

}  // namespace kan
