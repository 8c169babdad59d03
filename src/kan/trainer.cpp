#include "kan/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "kan/error.hpp"
#include "kan/schedule.hpp"
#include "parallel/digest.hpp"
#include "parallel/partition.hpp"
#include "parallel/rank_list.hpp"

namespace kan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int leaves_for(const TrainOptions& options, std::int64_t rows, int ranks, int threads,
               const Shape& shape) {
  const std::int64_t parameters = shape.parameters();
  const std::int64_t nominal = options.batch * options.accumulate;
  if (options.reproducible)
    return int(parallel::leaf_count(options.max_shards, nominal, options.shard_rows,
                                    parameters));
  // Enough for the threads and for sums that are not long chains, few enough that
  // clearing and adding them stays small: that grows with the parameters of an edge, the
  // work on a row does not. On a device a thread walks over the rows of a leaf one by
  // one, so leaves are short and many; threads are too many to count there.
  constexpr std::int64_t kRows = kHostExecution ? 256 : 32, kScale = kRows / 16;
  constexpr std::int64_t kMost = kHostExecution ? 64 : 128, kBytes = 64 << 20;
  if (!kHostExecution) threads = 1;
  const std::int64_t rows_of_leaf =
      std::max<std::int64_t>(kRows, kScale * parameters / shape.edges());
  const std::int64_t own = (std::min(nominal, rows) + ranks - 1) / ranks;
  const std::int64_t room = std::max<std::int64_t>(8, kBytes / (8 * parameters));
  std::int64_t wanted = std::max<std::int64_t>(own / rows_of_leaf, 1);
  if (threads > 1) {
    const bool even = (threads & (threads - 1)) == 0;
    wanted = std::max<std::int64_t>(wanted, even ? threads : 4 * threads);
  }
  wanted = std::min({wanted, std::max<std::int64_t>(kMost, threads), room,
                     std::max<std::int64_t>(1, own / 16)});
  int leaves = 1;
  while (2 * leaves <= wanted) leaves *= 2;
  return leaves;
}

RankParts rank_parts(const TrainOptions& options, std::int64_t rows, int ranks,
                     int threads, const Shape& shape) {
  return {options.reproducible, leaves_for(options, rows, ranks, threads, shape), ranks};
}

const char* name_of(ExitReason reason) {
  switch (reason) {
    case ExitReason::done:
      return "done";
    case ExitReason::target_loss:
      return "target_loss";
    case ExitReason::patience:
      return "patience";
    case ExitReason::walltime:
      return "walltime";
    case ExitReason::signal:
      return "signal";
    case ExitReason::stop_now:
      break;
  }
  return "stop_now";
}

template <class T>
Trainer<T>::Trainer(const Exec& exec, const Network<T>& network, Engine<T>& engine,
                    parallel::Communicator& communicator, const TrainOptions& options,
                    RowFeed<T>& train, const RowSet<T>& validation,
                    parallel::PhaseTimer& timer, const TrainingState<T>* stored)
    : exec_(exec),
      network_(network),
      engine_(engine),
      communicator_(communicator),
      options_(options),
      train_(train),
      validation_(validation),
      timer_(timer),
      parts_(rank_parts(options, std::max<std::int64_t>(1, train.rows()),
                        communicator.size(), exec.concurrency(), network.shape())),
      update_(exec, network, engine, communicator, options, parts_, timer) {
  if (train.rows() == 0) throw Error(Code::data, "no training rows: check data/source");
  if (communicator.size() > 1 && (options.average_every > 1 || communicator.silent()))
    averaging_ = std::make_unique<Averaging<T>>(exec, network, update_, communicator,
                                                options.moments, !communicator.silent());
  if (options.reproducible && averaging_)
    throw Error(
        Code::usage,
        communicator.silent()
            ? "parallel/reproducible: without sums over ranks (parallel/backend = "
              "null) nothing is reproducible; leave one of them out"
            : "parallel/reproducible: with parallel/average_every > 1 results "
              "depend on the number of ranks; leave one of them out");
  progress_.seed = options.seed;
  progress_.epoch_outside.assign(network.shape().layers(), 0);
  if (stored) restore(*stored);
  update_.form();
}

template <class T>
std::int64_t Trainer<T>::updates_per_epoch() const {
  const std::int64_t rows = options_.batch * options_.accumulate;
  return (train_.rows() + rows - 1) / rows;
}

// From where the run stands, so that a restart with another batch still ends at the epoch
// asked for.
template <class T>
std::int64_t Trainer<T>::total_updates() const {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t by_epochs = most;
  if (options_.epochs >= 0) {
    const std::int64_t rows = options_.batch * options_.accumulate;
    const std::int64_t rest = (train_.rows() - progress_.position + rows - 1) / rows;
    const std::int64_t whole =
        std::max<std::int64_t>(options_.epochs - progress_.epoch - 1, 0);
    by_epochs = progress_.epoch >= options_.epochs
                    ? progress_.step
                    : progress_.step + rest + whole * updates_per_epoch();
  }
  return std::min(by_epochs, options_.steps >= 0 ? options_.steps : most);
}

template <class T>
bool Trainer<T>::finished() const {
  return progress_.step >= total_updates();
}

// This rank's part of the next `rows` positions of the epoch.
template <class T>
Batch<T> Trainer<T>::next_batch(std::int64_t rows, const parallel::Range& own) {
  Batch<T> batch = train_.batch(exec_, progress_.position, rows, own);
  batch.size = rows;
  batch.leaves = batch.last_leaf = parts_.leaves;
  if (parts_.by_leaves) {
    const parallel::Range leaves =
        parallel::rank_leaves(parts_.leaves, parts_.ranks, communicator_.rank());
    batch.first_leaf = int(leaves.begin);
    batch.last_leaf = int(leaves.end);
  } else {
    batch.begin += own.begin;
    batch.size = own.size();
  }
  return batch;
}

// Collective. Ends the run, naming what is not finite and where.
template <class T>
void Trainer<T>::fail_numerically(const std::string& where, bool loss, bool own) {
  std::string ranks;
  if (communicator_.size() > 1) {
    const std::vector<int> bad = communicator_.allgather(own ? 1 : 0);
    std::vector<int> list;
    for (int r = 0; r < communicator_.size(); ++r)
      if (bad[r] != 0) list.push_back(r);
    if (!list.empty())
      ranks = " (" + parallel::rank_list(list, communicator_.size()) + ")";
  }
  throw Error(Code::numerical,
              where + ": " + (loss ? "the loss" : "the gradient") + ranks +
                  " is not finite; the parameters were not updated. Lower "
                  "optimizer/learning_rate, set optimizer/clip_norm, or scale the data");
}

// Starts the update of the next `rows` rows.
template <class T>
void Trainer<T>::step(std::int64_t rows, const parallel::StopFlags& flags) {
  communicator_.set_step(progress_.step);
  Started started;
  started.update.rows = rows;
  StepRecord& record = started.update.record;
  record.step = progress_.step;
  record.epoch = progress_.epoch;
  record.learning_rate =
      options_.optimizer.learning_rate *
      schedule_factor(options_.schedule, progress_.step, total_updates());
  const parallel::Range own = parts_.part(rows, communicator_.rank());
  const Batch<T> batch = next_batch(rows, own);
  started.local =
      averaging_ && (communicator_.silent() || progress_.step >= options_.average_warmup);
  started.own_rows = own.size();
  progress_.position += rows;
  progress_.samples_seen += rows;
  ++progress_.step;
  if (started.local) {
    averaging_->raise(flags);
    const std::int64_t used = averaging_->frozen() ? 0 : own.size();
    update_.start(batch, used, record.learning_rate, flags, Scope::own_rank);
  } else {
    update_.start(batch, rows, record.learning_rate, flags, Scope::all_ranks);
  }
  started_.push_back(started);
}

// Takes what started updates came to, until `left` are under way: to `finished_`, or to
// the next average.
template <class T>
void Trainer<T>::settle(std::int64_t left) {
  while (std::int64_t(started_.size()) > left) {
    Started started = started_.front();
    started_.erase(started_.begin());
    const Outcome outcome = update_.take();
    started.update.loss_sum = outcome.loss_sum;
    started.update.norm = outcome.norm;
    if (started.local) {
      averaging_->add(started.update, outcome, started.own_rows);
      continue;
    }
    const StepRecord& record = started.update.record;
    if (!outcome.finite())
      fail_numerically("step " + std::to_string(record.step) + ", epoch " +
                           std::to_string(record.epoch),
                       outcome.nonfinite > 0, outcome.own_nonfinite);
    decided_ |= outcome.stop;
    finished_.push_back(started.update);
  }
}

// Collective. The average, where one is due; whether all ranks are at one now.
template <class T>
bool Trainer<T>::at_one(bool epoch_end) {
  const bool last = epoch_end || finished();
  if (started_.empty() || !started_.back().local) {
    settle(last ? 0 : update_.late());
    return true;
  }
  const std::int64_t since_average = averaging_->size() + std::int64_t(started_.size());
  if (!last && (communicator_.silent() || since_average < options_.average_every)) {
    settle(update_.late());
    return false;
  }
  settle(0);
  timer_.enter(parallel::Phase::reduce);
  const bool own = averaging_->frozen();
  parallel::LaneOut lane;
  const Clock::time_point start = Clock::now();
  for (const LocalUpdate& local : averaging_->average(lane)) finished_.push_back(local);
  update_.count_sum(seconds_since(start));
  if (lane.nonfinite > 0)
    fail_numerically("steps " + std::to_string(finished_.front().record.step) + " to " +
                         std::to_string(finished_.back().record.step),
                     true, own);
  decided_ |= lane.stop;
  timer_.leave();
  return true;
}

// Collective. All ranks hold the same parameters and moments.
template <class T>
void Trainer<T>::compare_ranks() {
  if (communicator_.size() == 1 || communicator_.silent()) return;
  std::uint64_t value = 0;
  const auto add = [&](const View1<T>& numbers) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), numbers);
    value = parallel::digest(std::as_bytes(std::span(host.data(), host.size())), value);
  };
  exec_.fence("kan::Trainer: parameters are complete");
  add(network_.parameters());
  const Optimizer<T>& optimizer = update_.optimizer();
  if (optimizer.moments() > 0) add(optimizer.first());
  if (optimizer.moments() > 1) add(optimizer.second());
  const std::int64_t steps = optimizer.steps();
  value = parallel::digest(std::as_bytes(std::span(&steps, 1)), value);
  parallel::require_equal(communicator_, value,
                          "the parameters after step " + std::to_string(progress_.step));
}

template <class T>
EpochRecord Trainer<T>::finish_epoch() {
  EpochRecord record;
  const double rows = double(train_.rows());
  const double none = std::numeric_limits<double>::quiet_NaN();
  update_.take_counts(progress_);
  std::vector<std::int64_t> counts(progress_.epoch_outside);
  counts.push_back(progress_.epoch_correct);
  if (communicator_.size() > 1)
    communicator_.allreduce_sum(std::span<std::int64_t>(counts));
  record.epoch = progress_.epoch;
  record.train_loss = progress_.epoch_loss_sum /
                      loss_terms(options_.loss, rows, network_.shape().outputs());
  record.train_accuracy =
      options_.loss == LossKind::cross_entropy ? double(counts.back()) / rows : none;
  for (int l = 0; l < network_.shape().layers(); ++l)
    record.outside.push_back(double(counts[l]) / (rows * network_.shape().layer(l).in));
  record.validation_loss = record.validation_accuracy = none;
  if (validation_.rows() > 0) {
    timer_.enter(parallel::Phase::forward_backward);
    const Metrics metrics =
        evaluate(exec_, engine_, communicator_, validation_, options_.loss);
    timer_.leave();
    if (!std::isfinite(metrics.loss))
      throw Error(Code::numerical,
                  "the validation loss after epoch " + std::to_string(progress_.epoch) +
                      " is not finite: a validation row is far outside of what the "
                      "precision can hold; look at data/validation");
    record.validation_loss = metrics.loss;
    record.validation_accuracy = metrics.accuracy;
  }
  ++progress_.epoch;
  progress_.position = 0;
  progress_.epoch_loss_sum = 0;
  progress_.epoch_correct = 0;
  std::fill(progress_.epoch_outside.begin(), progress_.epoch_outside.end(), 0);
  return record;
}

// Whether the epoch that has just ended, in this launch or in the one before, is to be
// the last.
template <class T>
bool Trainer<T>::ends_here(ExitReason& reason) const {
  if (progress_.position > 0 || progress_.epoch == 0) return false;
  const std::int64_t last = progress_.epoch - 1;
  if (options_.target_loss > 0 && last_loss_ <= options_.target_loss) {
    reason = ExitReason::target_loss;
    return true;
  }
  if (options_.patience > 0 && last - progress_.best_epoch >= options_.patience) {
    reason = ExitReason::patience;
    return true;
  }
  return false;
}

// Tells the observer of the updates that are known now and were not told before.
template <class T>
void Trainer<T>::publish() {
  const double seconds = progress_.elapsed - published_;
  published_ = progress_.elapsed;
  std::int64_t rows = 0, so_far = 0;
  for (const LocalUpdate& done : finished_) rows += done.rows;
  for (LocalUpdate& done : finished_) {
    so_far += done.rows;
    StepRecord& record = done.record;
    record.loss = done.loss_sum / loss_terms(options_.loss, double(done.rows),
                                             network_.shape().outputs());
    record.gradient_norm = done.norm;
    record.samples_per_second = double(rows) / std::max(seconds, 1e-9);
    record.elapsed = progress_.elapsed - seconds * double(rows - so_far) / double(rows);
    progress_.epoch_loss_sum += done.loss_sum;
    if (observer_ != nullptr) observer_->on_step(record);
  }
  finished_.clear();
}

template <class T>
TrainResult Trainer<T>::run(Observer<T>& observer) {
  TrainResult result;
  elapsed_before_ = progress_.elapsed;
  published_ = progress_.elapsed;
  observer_ = &observer;
  const Clock::time_point start = Clock::now();
  double steady_from = 0;
  std::int64_t steady_rows = 0, warm_rows = 0;
  // A run that met its target, then was started again, has still met it.
  bool stop = ends_here(result.reason);
  timer_.start();
  compare_ranks();
  std::int64_t compared = progress_.step;
  while (!stop && !finished()) {
    timer_.enter(parallel::Phase::data);
    if (ordered_epoch_ != progress_.epoch) {
      train_.start_epoch(exec_, progress_.epoch, progress_.position);
      ordered_epoch_ = progress_.epoch;
    }
    const std::int64_t rows = std::min(options_.batch * options_.accumulate,
                                       train_.rows() - progress_.position);
    step(rows, observer.flags());
    result.rows += rows;
    ++result.steps;
    const bool epoch_end = progress_.position == train_.rows();
    if (!at_one(epoch_end)) continue;
    const double now = seconds_since(start);
    progress_.elapsed = elapsed_before_ + now;
    if (result.steps <= options_.warmup_steps)
      steady_from = now;
    else
      steady_rows = result.rows - warm_rows;
    if (result.steps <= options_.warmup_steps) warm_rows = result.rows;

    timer_.enter(parallel::Phase::output);
    publish();
    if (options_.digest_every > 0 &&
        progress_.step / options_.digest_every > compared / options_.digest_every) {
      compare_ranks();
      compared = progress_.step;
    }
    bool best = false;
    if (epoch_end) {
      result.last_epoch = finish_epoch();
      const EpochRecord& epoch = *result.last_epoch;
      const double loss =
          validation_.rows() > 0 ? epoch.validation_loss : epoch.train_loss;
      last_loss_ = loss;
      best = loss < progress_.best_loss;
      if (best) {
        progress_.best_loss = loss;
        progress_.best_epoch = epoch.epoch;
      }
      timer_.enter(parallel::Phase::output);
      observer.on_epoch(epoch, best);
      stop = ends_here(result.reason);
    }
    if (!stop && !finished() &&
        (decided_.signal_stop || decided_.walltime || decided_.stop_now)) {
      result.reason = decided_.signal_stop ? ExitReason::signal
                      : decided_.walltime  ? ExitReason::walltime
                                           : ExitReason::stop_now;
      stop = true;
    }
    observer.on_boundary(*this, epoch_end, best, decided_);
    decided_ = {};
    timer_.leave();
  }
  timer_.stop();
  result.seconds = seconds_since(start);
  const double steady_seconds = result.seconds - steady_from;
  result.steady_rate = steady_rows > 0 ? double(steady_rows) / steady_seconds : 0;
  return result;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace kan
