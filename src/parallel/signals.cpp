// Handlers that only write sig_atomic_t flags, and the function that reads them.
#include "parallel/signals.hpp"

#include <unistd.h>

#include <string>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

constexpr std::array<int, 4> kSignals{SIGTERM, SIGUSR2, SIGUSR1, SIGINT};
constexpr int kInterrupted = 130;

volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t checkpoint_flag = 0;
volatile std::sig_atomic_t interrupt_seen = 0;
volatile std::sig_atomic_t latest_signal = 0;
bool installed = false;

extern "C" void kan_parallel_on_signal(int signal) {
  if (signal == SIGINT) {
    if (interrupt_seen != 0) _exit(kInterrupted);
    interrupt_seen = 1;
  }
  latest_signal = signal;
  if (signal == SIGUSR1) {
    checkpoint_flag = 1;
  } else {
    stop_flag = 1;
  }
}

}  // namespace

SignalHandlers::SignalHandlers() {
  static_assert(kSignals.size() == kHandled);
  KAN_REQUIRE(!installed, "SignalHandlers: already installed");
  struct sigaction action{};
  action.sa_handler = kan_parallel_on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a file being written is not disturbed
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &former_[i]);
  }
  installed = true;
}

SignalHandlers::~SignalHandlers() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &former_[i], nullptr);
  }
  installed = false;
}

SignalFlags take_signals() {
  SignalFlags flags;
  flags.stop = stop_flag != 0;
  if (checkpoint_flag != 0) {
    // A signal between the test and the reset asks for the checkpoint about to be made.
    checkpoint_flag = 0;
    flags.checkpoint = true;
  }
  flags.signal = latest_signal;
  return flags;
}

void reset_signals() {
  stop_flag = 0;
  checkpoint_flag = 0;
  interrupt_seen = 0;
  latest_signal = 0;
}

}  // namespace kan::parallel
