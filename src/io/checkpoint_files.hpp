// The checkpoints of a run directory: which one to go on from, and which to keep.
//
// Kept are the last `keep` and NAME.best.rst.h5: the first checkpoint written after the
// best loss so far was met (a further name of that file, or a copy where the file system
// has no links). Where best epochs are to be kept exactly, let checkpoints fall on epochs
// (depoch = 1). The newest is found by the number in the name and verified, never by
// file times.
//
// Going on from step N, checkpoints past N belong to a run that is not continued: they
// are renamed to *.aside, so that no later restart takes them for the newest.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/run_directory.hpp"

namespace kan::io {

struct FoundCheckpoint {
  CheckpointHeader header;         ///< path is empty: start from the beginning (auto)
  std::vector<std::string> notes;  ///< bad ones passed over, with reasons
  bool exists() const { return !header.path.empty(); }
};

/// request: "latest", "auto" (latest, or the start where there is none) or a file. Errors
/// (Code::checkpoint): none there (latest), all bad (latest, auto), the named file
/// missing or bad.
FoundCheckpoint find_checkpoint(const std::string& directory, const std::string& name,
                                const std::string& request);

class CheckpointFiles {
 public:
  CheckpointFiles(const RunDirectory& directory, const RunInfo& run, int keep)
      : directory_(directory), run_(run), keep_(keep) {}

  /// Puts the directory in order for a run that goes on from this file and progress; an
  /// empty path and a default progress: from the start. Returns notes.
  std::vector<std::string> resume(const std::string& path, const Progress& progress);
  /// Writes NAME.step.rst.h5, then the best, then removes the oldest. Returns the path.
  template <class T>
  std::string write(const TrainingState<T>& state, Reason reason);

 private:
  void make_best(const std::string& path, double best_loss);
  void prune();

  const RunDirectory& directory_;
  RunInfo run_;
  int keep_;
  double best_written_ = std::numeric_limits<double>::infinity();
};

}  // namespace kan::io
