#include "run/training_observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/dataset/scaling.hpp"
#include "io/options.hpp"
#include "parallel/signals.hpp"

namespace kan::run {
namespace {

io::Moment moment_of(const Progress& p, io::Reason reason) {
  return {p.step, p.epoch, p.samples_seen, p.elapsed, reason};
}

// The blocks of the deck. Without a history block every step is kept, and without a
// restart block there is the final checkpoint only: a training that leaves nothing is of
// no use.
std::vector<io::OutputOptions> wanted_outputs(const io::Deck& deck) {
  std::vector<io::OutputOptions> wanted = io::output_options(deck);
  const auto declared = [&](io::OutputType type) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const io::OutputOptions& o) { return o.type == type; });
  };
  const bool history = declared(io::OutputType::history);
  const bool restart = declared(io::OutputType::restart);
  if (!history)
    wanted.push_back({.number = 0, .type = io::OutputType::history, .dstep = 1});
  if (!restart) wanted.push_back({.number = 0, .type = io::OutputType::restart});
  return wanted;
}

}  // namespace

template <class T>
TrainingObserver<T>::TrainingObserver(Session& session, const TrainOptions& options,
                                      const DataFacts& facts, const RowSet<T>& test,
                                      int layers, const Progress& progress)
    : session_(session),
      options_(options),
      facts_(facts),
      test_(test),
      diagnose_every_(session.deck.get(io::key::run_ndiag)),
      walltime_(session.deck.find(io::key::run_walltime).value_or(0)),
      total_epochs_(options.epochs) {
  const std::vector<io::OutputOptions> wanted = wanted_outputs(session.deck);
  for (io::OutputOptions o : wanted) {
    if (!o.enabled || o.type == io::OutputType::history) continue;
    const bool by_clock = o.dwall > 0;
    o.dwall = 0;
    scheduled_.push_back({o, io::Cadence(o), by_clock});
    scheduled_.back().cadence.done(progress.step, progress.epoch, 0);
  }
  // A restart from a checkpoint does not come back to the outputs of its step, so these
  // are written before it.
  std::stable_partition(scheduled_.begin(), scheduled_.end(), [](const Scheduled& s) {
    return s.options.type != io::OutputType::restart;
  });
  window_start_ = last_step_ = progress.elapsed;
  if (!session.root()) return;
  outputs_ =
      std::make_unique<io::Outputs>(*session.directory, session.info, wanted, layers);
  for (const std::string& note : outputs_->resume(progress, session.checkpoint))
    session.log->note(note);
}

// A last checkpoint must still fit: twice what the slowest took, the longest step, and a
// second for the end of the run.
template <class T>
bool TrainingObserver<T>::no_time_left() {
  if (walltime_ <= 0) return false;
  return session_.seconds() + 2 * save_seconds_ + longest_step_ + 1 > double(walltime_);
}

template <class T>
parallel::StopFlags TrainingObserver<T>::flags() {
  parallel::StopFlags flags;
  const parallel::SignalFlags signals = parallel::take_signals();
  flags.signal_stop = signals.stop;
  flags.signal_checkpoint = signals.checkpoint;
  if (!session_.root()) return flags;
  flags.walltime = no_time_left();
  flags.stop_now = session_.directory->requested(io::Request::stop_now);
  // Asked for by the user: everything. By the clock alone: what has a cadence in seconds.
  const bool asked = session_.directory->requested(io::Request::output_now);
  flags.signal_checkpoint = flags.signal_checkpoint || asked;
  flags.output_now = wall_due_;
  if (session_.board) flags |= session_.board->read();
  return flags;
}

template <class T>
void TrainingObserver<T>::on_step(const StepRecord& record) {
  longest_step_ = std::max(longest_step_, record.elapsed - last_step_);
  const double rows = record.samples_per_second * (record.elapsed - last_step_);
  window_rows_ += std::llround(rows);
  last_step_ = record.elapsed;
  ++window_steps_;
  if (!session_.root()) return;
  outputs_->record(record);
  const std::int64_t done = record.step + 1;
  const bool last = done == total_updates_;
  if (diagnose_every_ <= 0 || (done % diagnose_every_ != 0 && !last)) return;
  const double seconds = std::max(record.elapsed - window_start_, 1e-9);
  io::ProgressLine line;
  line.step = done;
  line.epoch = record.epoch;
  line.loss = record.loss;
  line.learning_rate = record.learning_rate;
  line.samples_per_second = double(window_rows_) / seconds;
  line.milliseconds_per_step = 1e3 * seconds / double(window_steps_);
  line.elapsed = record.elapsed;
  if (total_updates_ > 0) {
    line.fraction = double(done) / double(total_updates_);
    line.seconds_left = double(total_updates_ - done) * seconds / double(window_steps_);
  }
  session_.log->progress(line);
  window_start_ = record.elapsed;
  window_rows_ = window_steps_ = 0;
}

template <class T>
void TrainingObserver<T>::on_epoch(const EpochRecord& record, bool) {
  if (session_.root()) outputs_->record(record);
}

template <class T>
TrainingState<T> TrainingObserver<T>::collect(Trainer<T>& trainer) const {
  TrainingState<T> state = trainer.state();
  state.input_scaling = facts_.input_scaling;
  state.target_scaling = facts_.target_scaling;
  state.data_digest = facts_.digest;
  return state;
}

template <class T>
void TrainingObserver<T>::save(Trainer<T>& trainer, io::Reason reason) {
  const double start = session_.seconds();
  TrainingState<T> state = collect(trainer);
  last_saved_step_ = trainer.progress().step;
  if (!session_.root()) return;
  last_checkpoint_ = outputs_->checkpoint(state, reason);
  save_seconds_ = std::max(save_seconds_, session_.seconds() - start);
}

template <class T>
void TrainingObserver<T>::write(Trainer<T>& trainer, const io::OutputOptions& output,
                                io::Reason reason) {
  if (output.type == io::OutputType::restart) return save(trainer, reason);
  if (output.type == io::OutputType::parameters) {
    const TrainingState<T> state = collect(trainer);
    if (session_.root()) outputs_->parameters(output, reason, state);
    return;
  }
  const std::int64_t out = trainer.network().shape().outputs();
  const View2<T> prediction("kan::run::prediction", test_.rows(), out);
  kan::evaluate(Exec(), trainer.engine(), *session_.communicator, test_, options_.loss,
                prediction);
  if (!session_.root()) return;
  const auto copy = [&](const View2<T>& view, bool scaled) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    std::vector<T> values(host.data(), host.data() + host.size());
    if (scaled) io::unscale(facts_.target_scaling, values);
    return values;
  };
  const bool labels = options_.loss == LossKind::cross_entropy;
  const std::vector<T> predicted = copy(prediction, !labels);
  const std::vector<T> target = copy(test_.targets, !labels);
  outputs_->prediction(output, moment_of(trainer.progress(), reason),
                       std::span<const T>(predicted), std::span<const T>(target),
                       test_.rows(), out);
}

template <class T>
void TrainingObserver<T>::on_boundary(Trainer<T>& trainer, bool, bool,
                                      const parallel::StopFlags& decided) {
  const Progress& p = trainer.progress();
  total_updates_ = trainer.total_updates();
  const bool asked = decided.signal_checkpoint;
  bool saved = false;
  for (Scheduled& s : scheduled_) {
    const bool by_clock = decided.output_now && s.by_clock;
    if (!s.cadence.due(p.step, p.epoch, 0) && !asked && !by_clock) continue;
    const bool restart = s.options.type == io::OutputType::restart;
    if (restart && saved) continue;
    write(trainer, s.options, asked ? io::Reason::request : io::Reason::cadence);
    s.cadence.done(p.step, p.epoch, 0);
    saved = saved || restart;
  }
  if (!session_.root()) return;
  if (session_.board) session_.board->share(decided);
  outputs_->flush_if_due(moment_of(p, io::Reason::cadence));
  wall_due_ = false;
  for (const io::OutputOptions* o :
       outputs_->due(p.step, p.epoch, std::int64_t(p.elapsed)))
    wall_due_ = wall_due_ || o->dwall > 0;
}

template <class T>
std::vector<std::string> TrainingObserver<T>::finish(Trainer<T>& trainer,
                                                     ExitReason reason) {
  const io::Reason why = reason == ExitReason::signal     ? io::Reason::signal
                         : reason == ExitReason::walltime ? io::Reason::walltime
                         : reason == ExitReason::stop_now ? io::Reason::request
                                                          : io::Reason::final;
  const bool disabled = std::none_of(
      scheduled_.begin(), scheduled_.end(),
      [](const Scheduled& s) { return s.options.type == io::OutputType::restart; });
  // A run that was stopped can always go on.
  const bool wanted = !disabled || why != io::Reason::final;
  if (wanted && last_saved_step_ != trainer.progress().step) save(trainer, why);
  for (const Scheduled& s : scheduled_)
    if (s.options.type != io::OutputType::restart) write(trainer, s.options, why);
  if (!session_.root()) return {};
  session_.log->end_progress();
  for (const std::string& note : outputs_->finish(moment_of(trainer.progress(), why)))
    session_.log->note(note);
  std::vector<std::string> files;
  if (outputs_->has(io::OutputType::history)) {
    files.push_back(session_.directory->history_text_path());
    files.push_back(session_.directory->joined_path());
  }
  if (!last_checkpoint_.empty()) files.push_back(last_checkpoint_);
  return files;
}

template <class T>
void TrainingObserver<T>::save_history(const Progress& progress) noexcept {
  try {
    if (!session_.root()) return;
    session_.log->end_progress();
    outputs_->flush(moment_of(progress, io::Reason::cadence));
  } catch (const std::exception&) {
    // The first error is the one to report.
  }
}

template class TrainingObserver<float>;
template class TrainingObserver<double>;

}  // namespace kan::run
