// The directory a run writes to: made where missing, locked (NAME.lock), swept of
// temporary files that a killed run left, and asked for the request files stop_now and
// output_now. All names are made here:
//
//   NAME.log  NAME.report.json  NAME.hst       text
//   NAME.hst.00000000.h5  NAME.hst.h5          history: segments (first step), joined
//   NAME.00012000.rst.h5  NAME.best.rst.h5     checkpoints (updates done), the best one
//   NAME.out1.00012000.h5                      prediction or parameters of <output1>
//
// Rank 0 alone uses it. Errors: Code::output (directory, names, results in the way),
// Code::launch (another run holds the lock).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/run_lock.hpp"
#include "kan/error.hpp"

namespace kan::io {

/// What to do with results of an earlier run of the same name.
enum class Existing {
  refuse,   ///< error
  restart,  ///< go on from them (-r)
  replace   ///< leave them until clear() (--force)
};

enum class Request { stop_now, output_now };

/// 12000 -> "00012000"; more digits where eight do not do.
std::string step_digits(std::int64_t step);

class RunDirectory {
 public:
  RunDirectory(const std::string& directory, const std::string& name, Existing existing);

  const std::string& directory() const { return directory_; }
  const std::string& name() const { return name_; }
  /// DIRECTORY/NAME followed by suffix, e.g. ".log".
  std::string path(const std::string& suffix) const;
  std::string checkpoint_path(std::int64_t step) const;
  std::string best_path() const { return path(".best.rst.h5"); }
  std::string segment_path(std::int64_t first_step) const;
  std::string joined_path() const { return path(".hst.h5"); }
  std::string history_text_path() const { return path(".hst"); }
  std::string output_path(int number, std::int64_t step) const;

  /// Removes the results of earlier runs of this name.
  void clear();
  /// True once for each time the request file is made: it is removed when seen. The file
  /// system is asked at most once a second.
  bool requested(Request request);
  /// What the user is to be told of: stale lock, swept files.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Gives the lock back; what the destructor does too.
  void release() noexcept { lock_.release(); }

 private:
  void sweep();

  std::string directory_, name_;
  RunLock lock_;
  std::vector<std::string> notes_;
  std::chrono::steady_clock::time_point asked_[2];
};

/// Numbered files DIRECTORY/NAME + prefix + digits + suffix (8 digits or more), in
/// ascending order of the number. Anything else in the directory is passed over; a
/// directory that cannot be listed is an error of that code.
std::vector<std::pair<std::int64_t, std::string>> numbered_files(
    const std::string& directory, const std::string& name, const std::string& prefix,
    const std::string& suffix, Code code);

}  // namespace kan::io
