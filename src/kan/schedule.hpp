// Learning rate of update `step` (0 is the first): rate(step) = learning_rate * f(step).
//   warm-up   f rises linearly from 1/warmup to 1 over the first `warmup` updates; what
//             follows counts from its end, s = step - warmup
//   constant  1        step  factor^floor(s/step_size)
//   cosine    (1 + cos(pi s/(total - warmup)))/2: 0 at the end of the run
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kan/options.hpp"

namespace kan {

/// total: updates of the whole run (cosine only).
inline double schedule_factor(const ScheduleOptions& options, std::int64_t step,
                              std::int64_t total) {
  if (step < options.warmup) return double(step + 1) / double(options.warmup);
  const std::int64_t s = step - options.warmup;
  switch (options.type) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::step:
      return std::pow(options.factor, double(s / options.step_size));
    case ScheduleKind::cosine:
      break;
  }
  const double length = double(std::max<std::int64_t>(1, total - options.warmup));
  return 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, double(s) / length)));
}

}  // namespace kan
