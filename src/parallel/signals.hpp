// Signals as flags that the training loop looks at between steps.
//
//   SIGTERM, SIGUSR2, first SIGINT   checkpoint at the end of the step, then stop
//   SIGUSR1                          checkpoint at the end of the step, go on
//   second SIGINT                    end this process at once, status 130
// A handler does nothing but set a flag. The flag of one rank reaches all ranks through
// the control lane of the next reduction (control_lane.hpp).
#pragma once

#include <array>
#include <csignal>

namespace kan::parallel {

struct SignalFlags {
  bool stop = false;        ///< stays set once asked for
  bool checkpoint = false;  ///< once per request; requests before one take() are one
  int signal = 0;           ///< number of the latest signal seen, 0: none
};

/// Installs the handlers for its lifetime and restores the former ones after. One object
/// at a time in a process. Flags raised before are kept until taken.
class SignalHandlers {
 public:
  SignalHandlers();
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
  ~SignalHandlers();

 private:
  static constexpr int kHandled = 4;
  std::array<struct sigaction, kHandled> former_{};
};

/// What was asked for since the last call. Local; cheap enough for every step.
SignalFlags take_signals();

/// Forgets all requests, as at the start of the process.
void reset_signals();

}  // namespace kan::parallel
