// What a run says: rank 0 writes lines to the screen and to NAME.log, all other ranks
// nothing. Progress is one key=value line every so many steps; on a terminal a bar with
// the time left takes its place on the screen, and the lines go to NAME.log alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "io/atomic_file.hpp"
#include "kan/error.hpp"

namespace kan::io {

/// Figures of a progress line. total_steps, total_epochs: -1 where there is no such
/// limit.
struct ProgressLine {
  std::int64_t step = 0, epoch = 0;  ///< done
  double loss = 0, learning_rate = 0, samples_per_second = 0, milliseconds_per_step = 0;
  double elapsed = 0;        ///< seconds over all launches
  double fraction = -1;      ///< of the run that is done, 0 to 1; -1: unknown
  double seconds_left = -1;  ///< -1: unknown
};

/// "step=100 epoch=0 loss=1.2e-01 lr=1e-03 samples/s=1e+06 ms/step=0.5 elapsed=0.05"
std::string progress_text(const ProgressLine& line);

/// Seconds as "59s", "12m03s", "3h20m", "2d04h".
std::string duration_text(double seconds);

class Log {
 public:
  enum class Screen { automatic, plain, terminal, quiet };

  /// A log that says nothing: of ranks other than 0.
  Log() = default;
  /// Screen lines go to `screen`; automatic: a bar where it is a terminal. Nothing goes
  /// to a file before open().
  explicit Log(Screen mode, std::FILE* screen = stdout);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log();

  /// Lines from now on, and those said before, go to path too; append: after what is
  /// there. Errors: Code::output.
  void open(const std::string& path, bool append);
  bool is_open() const { return bool(file_); }
  /// One or more lines.
  void line(std::string_view text);
  /// "note: TEXT"
  void note(const std::string& text);
  /// "warning: TEXT"
  void warning(const std::string& text);
  /// A line for the file alone: what main prints on stderr.
  void error(const std::string& text);
  void progress(const ProgressLine& line);
  /// Ends the bar, so that what others print begins on a line of its own.
  void end_progress();

 private:
  void say(std::string_view text);
  void record(std::string_view text);

  std::FILE* screen_ = nullptr;
  bool active_ = false, terminal_ = false, bar_shown_ = false;
  AppendFile file_;
  std::string before_open_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace kan::io
