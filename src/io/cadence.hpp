// When an output is due: at the first step where floor(step/dstep), floor(epoch/depoch)
// or floor(elapsed/dwall) is past what it was at the last one. So outputs fall on
// multiples where every step is asked about, none is lost where only some are (averaging
// points), and a restarted run writes at the steps of an undisturbed one.
#pragma once

#include <cstdint>

#include "io/output_options.hpp"

namespace kan::io {

class Cadence {
 public:
  Cadence() = default;
  explicit Cadence(const OutputOptions& options)
      : dstep_(options.dstep), depoch_(options.depoch), dwall_(options.dwall) {}

  /// step: updates done; epoch: epochs completed; elapsed: whole seconds over all
  /// launches.
  bool due(std::int64_t step, std::int64_t epoch, std::int64_t elapsed) const {
    return past(step, step_, dstep_) || past(epoch, epoch_, depoch_) ||
           past(elapsed, elapsed_, dwall_);
  }
  /// Counts from here on.
  void done(std::int64_t step, std::int64_t epoch, std::int64_t elapsed) {
    step_ = step;
    epoch_ = epoch;
    elapsed_ = elapsed;
  }

 private:
  /// floor(value/every), also for -1, "before the first".
  static std::int64_t periods(std::int64_t value, std::int64_t every) {
    return value < 0 ? -1 : value / every;
  }
  static bool past(std::int64_t now, std::int64_t last, std::int64_t every) {
    return every > 0 && periods(now, every) > periods(last, every);
  }

  std::int64_t dstep_ = 0, depoch_ = 0, dwall_ = 0;
  std::int64_t step_ = 0, epoch_ = 0, elapsed_ = 0;
};

}  // namespace kan::io
