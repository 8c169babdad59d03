// History files: time series as one-dimensional datasets, one a column.
//
//   /step /step_epoch /loss /learning_rate /gradient_norm /samples_per_second /elapsed
//   /epoch/epoch /epoch/train_loss /epoch/train_accuracy /epoch/validation_loss
//   /epoch/validation_accuracy /epoch/layerL_outside (L from 0)
//
// (/epoch is the group, so the epoch of a step row is named step_epoch.) A segment
// NAME.hst.00001000.h5 holds the rows from its first step, its number, to its end step;
// both are attributes of the root. Where segments overlap, the later one holds the truth:
// rows of earlier ones from its first step on, and epoch rows from its first epoch on,
// are dropped. NAME.hst.h5 is all segments joined, in the same layout; where it is there
// it is the whole history. Files are sealed (atomic_file.hpp) and never reopened for
// writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/info.hpp"
#include "kan/state.hpp"

namespace kan::io {

struct HistoryRows {
  std::int64_t first_step = 0, end_step = 0;  ///< the steps covered, rows kept or not
  int layers = 0;
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;

  std::size_t size() const { return steps.size() + epochs.size(); }
  /// Drops the step rows from `step` on and the epoch rows from `epoch` on; true where
  /// something was dropped.
  bool cut(std::int64_t step, std::int64_t epoch);
};

/// Writes one file atomically. Errors: Code::output.
void write_history_file(const std::string& path, const HistoryRows& rows,
                        const RunInfo& run, const Moment& moment);

/// Errors: Code::checkpoint where the file is damaged.
HistoryRows read_history_file(const std::string& path);

/// The whole history of DIRECTORY/NAME: the joined file, or all segments joined by the
/// rules above. Empty where there is none. Errors: Code::checkpoint for a damaged file.
HistoryRows read_history(const std::string& directory, const std::string& name);

/// Segments alone, in ascending order of their number.
HistoryRows join_segments(const std::vector<std::pair<std::int64_t, std::string>>& files);

}  // namespace kan::io
