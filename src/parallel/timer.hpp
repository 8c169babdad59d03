// Where the time of a run goes: a steady clock whose every moment belongs to one phase.
//
// start() ... stop() is the time accounted for. enter(phase) hands the clock to a phase,
// leave() hands it to `other`, so the phases add up to the elapsed time by construction
// and whatever nobody named is seen as `other`. One clock reading per change of phase
// (20-40 ns), about ten a step.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace kan::parallel {

class Communicator;

/// wait: for the last rank before a sum, where that is told apart (parallel/diagnose).
enum class Phase { data, forward_backward, wait, reduce, optimizer, output, other };
inline constexpr std::size_t kPhases = 7;
inline constexpr std::array<const char*, kPhases> kPhaseNames{
    "data",      "forward_backward", "reduce_wait", "reduce_exposed",
    "optimizer", "output",           "other"};

/// Seconds of one phase over ranks.
struct PhaseSpread {
  double min = 0, mean = 0, max = 0;
};

/// Seconds of each phase, in the order of kPhaseNames, and of all together.
struct PhaseTable {
  std::array<PhaseSpread, kPhases> phases;
  PhaseSpread elapsed;
};

class PhaseTimer {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts, or goes on after stop(); the clock belongs to `other`.
  void start() {
    if (running_) return;
    running_ = true;
    current_ = Phase::other;
    last_ = Clock::now();
  }
  void stop() {
    if (!running_) return;
    advance();
    running_ = false;
  }
  void enter(Phase phase) {
    if (running_) advance();
    current_ = phase;
  }
  void leave() { enter(Phase::other); }

  /// enter(phase) for a block of code; gives the clock back to the phase before.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase) : timer_(timer), before_(timer.current_) {
      timer_.enter(phase);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { timer_.enter(before_); }

   private:
    PhaseTimer& timer_;
    Phase before_;
  };
  [[nodiscard]] Scope scope(Phase phase) { return {*this, phase}; }

  /// Seconds of a phase up to the last change of phase.
  double seconds(Phase phase) const {
    return Seconds(spent_[static_cast<std::size_t>(phase)]).count();
  }
  /// Sum over all phases.
  double elapsed() const {
    Clock::duration sum{};
    for (const auto& one : spent_) sum += one;
    return Seconds(sum).count();
  }
  void reset() { spent_ = {}; }

  /// Collective: least, mean and largest of each phase over ranks, the same on all ranks.
  PhaseTable summarize(Communicator& communicator) const;

 private:
  using Seconds = std::chrono::duration<double>;
  void advance() {
    const Clock::time_point now = Clock::now();
    spent_[static_cast<std::size_t>(current_)] += now - last_;
    last_ = now;
  }

  std::array<Clock::duration, kPhases> spent_{};
  Clock::time_point last_{};
  Phase current_ = Phase::other;
  bool running_ = false;
};

}  // namespace kan::parallel
