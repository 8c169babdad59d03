// The history's cadence is asked about the row's own step (the update made from it), so
// the first row of a run is kept; all others about the state after an update.
#include "io/outputs.hpp"

#include <algorithm>
#include <iterator>

#include "io/result_files.hpp"

namespace kan::io {

namespace {

std::int64_t whole_seconds(double elapsed) { return static_cast<std::int64_t>(elapsed); }

template <class T>
Moment moment_of(const TrainingState<T>& state, Reason reason) {
  const Progress& progress = state.progress;
  return {progress.step, progress.epoch, progress.samples_seen, progress.elapsed, reason};
}

}  // namespace

Outputs::Outputs(const RunDirectory& directory, const RunInfo& run,
                 const std::vector<OutputOptions>& options, int layers,
                 std::size_t segment_rows)
    : directory_(directory), run_(run), layers_(layers), segment_rows_(segment_rows) {
  int keep = 0;
  for (const OutputOptions& output : options) {
    if (!output.enabled) continue;
    outputs_.push_back({output, Cadence(output)});
    if (output.type == OutputType::restart) keep = std::max(keep, output.keep);
  }
  std::stable_partition(outputs_.begin(), outputs_.end(), [](const Scheduled& output) {
    return output.options.type != OutputType::restart;
  });
  // Without a block there are still the checkpoints of signals and limits.
  checkpoints_ = std::make_unique<CheckpointFiles>(
      directory_, run_, keep > 0 ? keep : OutputOptions().keep);
}

bool Outputs::has(OutputType type) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const Scheduled& output) {
    return output.options.type == type;
  });
}

std::vector<std::string> Outputs::resume(const Progress& progress,
                                         const std::string& path) {
  // Checkpoints first: once history rows are dropped, none may lead past them.
  std::vector<std::string> notes = checkpoints_->resume(path, progress);
  if (has(OutputType::history)) {
    history_ =
        std::make_unique<History>(directory_, run_, layers_, progress, segment_rows_);
    const std::vector<std::string>& more = history_->notes();
    std::copy(more.begin(), more.end(), std::back_inserter(notes));
  }
  for (Scheduled& output : outputs_) {
    const std::int64_t elapsed = whole_seconds(progress.elapsed);
    if (output.options.type == OutputType::history) {
      // The last row was that of the step before; its epoch may have been the one before.
      output.cadence.done(progress.step - 1,
                          progress.position > 0 ? progress.epoch : progress.epoch - 1,
                          progress.step > 0 ? elapsed : -1);
    } else {
      output.cadence.done(progress.step, progress.epoch, elapsed);
    }
  }
  return notes;
}

void Outputs::record(const StepRecord& row) {
  if (!history_) return;
  bool keep = false;
  const std::int64_t elapsed = whole_seconds(row.elapsed);
  for (Scheduled& output : outputs_) {
    if (output.options.type != OutputType::history) continue;
    if (!output.cadence.due(row.step, row.epoch, elapsed)) continue;
    output.cadence.done(row.step, row.epoch, elapsed);
    keep = true;
  }
  if (keep) history_->add(row);
}

void Outputs::record(const EpochRecord& row) {
  if (history_) history_->add(row);
}

std::vector<const OutputOptions*> Outputs::due(std::int64_t step, std::int64_t epoch,
                                               std::int64_t elapsed) const {
  std::vector<const OutputOptions*> found;
  for (const Scheduled& output : outputs_) {
    if (output.options.type != OutputType::history &&
        output.cadence.due(step, epoch, elapsed)) {
      found.push_back(&output.options);
    }
  }
  return found;
}

void Outputs::done(const OutputOptions& written, const Moment& moment) {
  for (Scheduled& output : outputs_) {
    if (output.options.number == written.number) {
      output.cadence.done(moment.step, moment.epoch, whole_seconds(moment.elapsed));
    }
  }
}

void Outputs::done(OutputType type, const Moment& moment) {
  for (Scheduled& output : outputs_) {
    if (output.options.type == type) {
      output.cadence.done(moment.step, moment.epoch, whole_seconds(moment.elapsed));
    }
  }
}

void Outputs::flush_if_due(const Moment& moment) {
  if (history_ && history_->flush_due()) history_->flush(moment);
}

void Outputs::flush(const Moment& moment) {
  if (history_) history_->flush(moment);
}

template <class T>
std::string Outputs::checkpoint(TrainingState<T>& state, Reason reason) {
  const Moment moment = moment_of(state, reason);
  flush(moment);
  if (history_) state.progress.history_rows = history_->rows();
  const std::string path = checkpoints_->write(state, reason);
  done(OutputType::restart, moment);
  return path;
}

template <class T>
std::string Outputs::prediction(const OutputOptions& output, const Moment& moment,
                                std::span<const T> predicted, std::span<const T> target,
                                std::int64_t rows, std::int64_t out) {
  const std::string path = directory_.output_path(output.number, moment.step);
  write_prediction(path, run_, moment, predicted, target, rows, out);
  done(output, moment);
  return path;
}

template <class T>
std::string Outputs::parameters(const OutputOptions& output, Reason reason,
                                const TrainingState<T>& state) {
  const std::string path = directory_.output_path(output.number, state.progress.step);
  write_parameters(path, run_, reason, state);
  done(output, moment_of(state, reason));
  return path;
}

std::vector<std::string> Outputs::finish(const Moment& moment) {
  if (!history_) return {};
  const std::size_t told = history_->notes().size();
  history_->finish(moment);
  return {history_->notes().begin() + static_cast<std::ptrdiff_t>(told),
          history_->notes().end()};
}

#define KAN_OUTPUTS_INSTANCES(T)                                                   \
  template std::string Outputs::checkpoint(TrainingState<T>&, Reason);             \
  template std::string Outputs::prediction(const OutputOptions&, const Moment&,    \
                                           std::span<const T>, std::span<const T>, \
                                           std::int64_t, std::int64_t);            \
  template std::string Outputs::parameters(const OutputOptions&, Reason,           \
                                           const TrainingState<T>&);
KAN_OUTPUTS_INSTANCES(float)
KAN_OUTPUTS_INSTANCES(double)
#undef KAN_OUTPUTS_INSTANCES

}  // namespace kan::io
