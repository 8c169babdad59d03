// Signals raised for real in this process; the one that ends a process in a child.
#include "parallel/signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include "kan/error.hpp"

namespace {

using kan::parallel::reset_signals;
using kan::parallel::SignalFlags;
using kan::parallel::SignalHandlers;
using kan::parallel::take_signals;

TEST_CASE("stopping signals set the stop flag, which stays") {
  const SignalHandlers handlers;
  for (const int signal : {SIGTERM, SIGUSR2, SIGINT}) {
    reset_signals();
    CHECK_FALSE(take_signals().stop);
    std::raise(signal);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const SignalFlags flags = take_signals();
      CHECK(flags.stop);
      CHECK_FALSE(flags.checkpoint);
      CHECK(flags.signal == signal);
    }
  }
  reset_signals();
}

TEST_CASE("SIGUSR1 asks for one checkpoint and not to stop") {
  reset_signals();
  const SignalHandlers handlers;
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  const SignalFlags first = take_signals();
  CHECK(first.checkpoint);
  CHECK_FALSE(first.stop);
  CHECK_FALSE(take_signals().checkpoint);
  std::raise(SIGUSR1);
  CHECK(take_signals().checkpoint);
  reset_signals();
}

/// Exit status of a child that interrupts itself so many times and then returns 7.
int status_after_interrupts(int count) {
  const pid_t child = fork();
  if (child == 0) {
    const SignalHandlers handlers;
    for (int i = 0; i < count; ++i) std::raise(SIGINT);
    _exit(take_signals().stop ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("the second interrupt ends the process at once") {
  reset_signals();
  CHECK(status_after_interrupts(0) == 8);
  CHECK(status_after_interrupts(1) == 7);
  CHECK(status_after_interrupts(2) == 130);
}

TEST_CASE("former handlers come back, and handlers are not installed twice") {
  std::signal(SIGUSR1, SIG_IGN);
  {
    const SignalHandlers handlers;
    CHECK_THROWS_AS(SignalHandlers(), kan::Error);
  }
  struct sigaction action{};
  sigaction(SIGUSR1, nullptr, &action);
  CHECK(action.sa_handler == SIG_IGN);
  std::signal(SIGUSR1, SIG_DFL);
  reset_signals();
}

}  // namespace
