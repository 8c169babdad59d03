// The history of a run while it is written: rows are gathered in memory and closed into
// segments (history_file.hpp), each complete by rename. A short segment is replaced by a
// longer one with the same first step until it holds kSegmentRows rows; then a new one is
// begun. NAME.hst is the same as text: one row a line, columns in its header, '#' before
// all else (epochs, restarts), appended line by line.
//
// A restart at step N drops step rows from N on and epoch rows past it, in both forms, by
// replacing files. finish() joins all into NAME.hst.h5 and then removes the segments.
// Rank 0 alone uses it. Errors: Code::output.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/atomic_file.hpp"
#include "io/history_file.hpp"
#include "io/run_directory.hpp"

namespace kan::io {

class History {
 public:
  static constexpr std::size_t kSegmentRows = 16384;

  /// Goes on from `progress` (step, epoch, history_rows): a default one for a fresh run.
  /// layers: number of layers, for the columns layerL_outside. `directory` must outlive
  /// it.
  History(const RunDirectory& directory, const RunInfo& run, int layers,
          const Progress& progress, std::size_t segment_rows = kSegmentRows);

  void add(const StepRecord& row);
  void add(const EpochRecord& row);
  /// Rows have been waiting for a minute, or many of them: flush at the next step border.
  bool flush_due() const;
  /// Puts all rows on the disk. moment.step: updates done.
  void flush(const Moment& moment);
  /// Flushes and joins. Where a segment is damaged the segments are left as they are.
  void finish(const Moment& moment);

  /// Step rows kept since the run began, over all launches.
  std::int64_t rows() const { return rows_; }
  /// Of all launches; none where no epoch has ended. After finish() only.
  const std::optional<EpochRecord>& last_epoch() const { return last_epoch_; }
  /// What the user is to be told of: dropped, damaged or missing rows.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void adopt_joined();
  void cut_segments(const Progress& progress);
  void cut_text(const Progress& progress);
  void write_text(std::string_view line);
  void set_aside(const std::string& path, const std::string& why);

  const RunDirectory& directory_;
  RunInfo run_;
  std::size_t segment_rows_;
  HistoryRows open_;           ///< rows of the segment that still grows
  std::size_t unflushed_ = 0;  ///< the last ones of them, not on the disk yet
  std::int64_t rows_ = 0;
  std::string text_;  ///< lines not handed to the system yet
  AppendFile text_file_;
  std::chrono::steady_clock::time_point flushed_, text_written_;
  std::vector<std::string> notes_;
  std::optional<EpochRecord> last_epoch_;
};

}  // namespace kan::io
