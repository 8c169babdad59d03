// All files of a run through one object: which outputs are due, history rows,
// checkpoints, predictions and parameters, in the order that makes every kill safe
// (history before the checkpoint that counts its rows; the checkpoint last of what is due
// at a step).
//
//   Outputs outputs(directory, run, options, layers);
//   outputs.resume(progress, path);                 // or ({}, "") from the start
//   per update:  outputs.record(step_row);
//   per epoch:   outputs.record(epoch_row);
//   per step border:  outputs.flush_if_due(moment);
//                     for (const OutputOptions* output : outputs.due(step, epoch,
//                     elapsed)) ...
//   at the end:  outputs.checkpoint(state, Reason::final); outputs.finish(moment);
//
// Rank 0 alone writes; due() is a function of its arguments and of what was written, so
// that the root decides and tells the others. Errors: Code::output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/cadence.hpp"
#include "io/checkpoint_files.hpp"
#include "io/history.hpp"
#include "io/run_directory.hpp"

namespace kan::io {

class Outputs {
 public:
  /// `directory` must outlive it. Disabled blocks are dropped. layers: of the network.
  /// segment_rows: rows of a history segment.
  Outputs(const RunDirectory& directory, const RunInfo& run,
          const std::vector<OutputOptions>& options, int layers,
          std::size_t segment_rows = History::kSegmentRows);

  /// Once, before all else: puts the directory in order for a run that goes on from this
  /// progress, read from the checkpoint at path. Returns what the user is to be told.
  std::vector<std::string> resume(const Progress& progress, const std::string& path);

  /// The row is kept where a history output is due at it.
  void record(const StepRecord& row);
  /// Kept where there is a history output at all.
  void record(const EpochRecord& row);
  /// Outputs other than history that are due, checkpoints last.
  std::vector<const OutputOptions*> due(std::int64_t step, std::int64_t epoch,
                                        std::int64_t elapsed) const;
  /// Puts history rows on the disk once enough of them wait.
  void flush_if_due(const Moment& moment);
  void flush(const Moment& moment);

  /// History first, then the checkpoint; sets state.progress.history_rows. Also for
  /// checkpoints that no cadence asks for (signal, request, final). Returns the path.
  template <class T>
  std::string checkpoint(TrainingState<T>& state, Reason reason);
  template <class T>
  std::string prediction(const OutputOptions& output, const Moment& moment,
                         std::span<const T> predicted, std::span<const T> target,
                         std::int64_t rows, std::int64_t out);
  template <class T>
  std::string parameters(const OutputOptions& output, Reason reason,
                         const TrainingState<T>& state);
  /// Joins the history. Returns what the user is to be told.
  std::vector<std::string> finish(const Moment& moment);

  bool has(OutputType type) const;
  /// After finish(): the last epoch of all launches, where the history holds one.
  std::optional<EpochRecord> last_epoch() const {
    return history_ ? history_->last_epoch() : std::nullopt;
  }
  /// Step rows kept over all launches.
  std::int64_t history_rows() const { return history_ ? history_->rows() : 0; }

 private:
  struct Scheduled {
    OutputOptions options;
    Cadence cadence;
  };
  void done(const OutputOptions& output, const Moment& moment);
  void done(OutputType type, const Moment& moment);

  const RunDirectory& directory_;
  RunInfo run_;
  int layers_;
  std::size_t segment_rows_;
  std::vector<Scheduled> outputs_;  ///< checkpoints last
  std::unique_ptr<History> history_;
  std::unique_ptr<CheckpointFiles> checkpoints_;
};

}  // namespace kan::io
