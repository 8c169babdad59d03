// Errors and exit codes. The library throws kan::Error with the exit code that the
// program shall end with; only main ends the process. One line: what, where in the
// user's input, what to do. Never a path or line of our own source.
#pragma once

#include <stdexcept>
#include <string>

namespace kan {

/// Exit codes of the program (docs/manual.md, "Exit codes").
enum class Code : int {
  done = 0,
  usage = 2,          ///< deck or command line
  data = 3,           ///< input data
  output = 4,         ///< cannot write results
  checkpoint = 5,     ///< checkpoint missing, damaged or of another shape
  communication = 6,  ///< ranks lost or out of step
  numerical = 7,      ///< not-a-number or overflow
  device = 8,         ///< device or memory
  launch = 9,         ///< launch environment or run lock
  stopped = 75        ///< stopped by a limit or a signal, state saved: resubmit
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

}  // namespace kan

/// Precondition of a library call: a programming error, not a user's input error.
#define KAN_REQUIRE(condition, message)                                  \
  do {                                                                   \
    if (!(condition)) throw ::kan::Error(::kan::Code::usage, (message)); \
  } while (false)
