#include "kan/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "kan/error.hpp"
#include "kan/schedule.hpp"
#include "parallel/partition.hpp"

namespace kan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int leaves_for(const TrainOptions& options, std::int64_t rows, int ranks, int threads,
               std::int64_t parameters) {
  const std::int64_t nominal = options.batch * options.accumulate;
  if (options.reproducible)
    return int(parallel::leaf_count(options.max_shards, nominal, options.shard_rows,
                                    parameters));
  // Enough for the threads and for sums that are not long chains, few enough that
  // clearing and adding them stays small.
  constexpr std::int64_t kRows = 256, kMost = 64, kBytes = 64 << 20;
  const std::int64_t own = (std::min(nominal, rows) + ranks - 1) / ranks;
  const std::int64_t room = std::max<std::int64_t>(8, kBytes / (8 * parameters));
  std::int64_t wanted = std::max<std::int64_t>(own / kRows, 1);
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
                     int threads, std::int64_t parameters) {
  return {options.reproducible, leaves_for(options, rows, ranks, threads, parameters),
          ranks};
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
      optimizer_(options.optimizer, network.shape().parameters()),
      parts_(rank_parts(options, std::max<std::int64_t>(1, train.rows()),
                        communicator.size(), exec.concurrency(),
                        network.shape().parameters())),
      leaves_(parts_.leaves),
      reducer_(communicator, network.shape().parameters()) {
  if (train.rows() == 0) throw Error(Code::data, "no training rows: check data/source");
  const int ranks = communicator.size();
  if (options.reproducible && ranks > leaves_)
    throw Error(Code::usage, "parallel/reproducible: " + std::to_string(ranks) +
                                 " ranks, but only " + std::to_string(leaves_) +
                                 " shards of the batch: start fewer ranks, or lower "
                                 "parallel/shard_rows, or raise optimizer/batch");
  if (options.reproducible && ranks > 1)
    tree_ = std::make_unique<parallel::TreeReducer<T>>(communicator,
                                                       engine.plan().table_size, leaves_);
  progress_.seed = options.seed;
  progress_.epoch_outside.assign(network.shape().layers(), 0);
  if (stored) restore(*stored);
  engine_.form(exec_, network_.parameters());
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
Batch<T> Trainer<T>::next_batch(std::int64_t rows) {
  const parallel::Range own = parts_.part(rows, communicator_.rank());
  Batch<T> batch = train_.batch(exec_, progress_.position, rows, own);
  batch.size = rows;
  batch.leaves = leaves_;
  batch.last_leaf = leaves_;
  if (options_.reproducible) {
    const parallel::Range leaves =
        parallel::rank_leaves(leaves_, parts_.ranks, communicator_.rank());
    batch.first_leaf = int(leaves.begin);
    batch.last_leaf = int(leaves.end);
  } else {
    batch.begin += own.begin;
    batch.size = own.size();
  }
  return batch;
}

// Gradient of the batch summed over leaves and ranks, in reducer_.gradient().
template <class T>
parallel::LaneOut Trainer<T>::sum_gradient(const Batch<T>& batch,
                                           const parallel::StopFlags& flags) {
  timer_.enter(parallel::Phase::forward_backward);
  engine_.gradient(exec_, batch, options_.loss);
  if (!tree_) {
    engine_.finish(exec_, network_.parameters(), engine_.add(exec_, 0, leaves_),
                   reducer_.gradient());
  } else {
    const auto& subtrees = tree_->subtrees();
    const std::int64_t size = engine_.plan().table_size;
    for (std::size_t j = 0; j < subtrees.size(); ++j) {
      const View1<T> sum =
          engine_.add(exec_, int(subtrees[j].first), int(subtrees[j].count));
      Kokkos::deep_copy(
          exec_, View1<T>(tree_->partials().data() + std::int64_t(j) * size, size), sum);
    }
  }
  const BatchSums sums = engine_.sums(exec_);
  progress_.epoch_correct += sums.correct;
  for (std::size_t l = 0; l < sums.outside.size(); ++l)
    progress_.epoch_outside[l] += sums.outside[l];

  timer_.enter(parallel::Phase::reduce);
  parallel::LaneIn in;
  in.stop = flags;
  in.nonfinite = std::isfinite(sums.loss) ? 0 : 1;
  in.loss_sum = in.nonfinite ? 0 : sums.loss;
  if (!tree_) {
    if (communicator_.size() > 1) return reducer_.reduce(exec_, in);
    return {in.loss_sum, in.nonfinite, in.stop};
  }
  std::vector<double> losses;
  for (const parallel::Subtree& s : tree_->subtrees()) {
    const double loss = engine_.loss(int(s.first), int(s.count));
    losses.push_back(std::isfinite(loss) ? loss : 0);
  }
  const parallel::LaneOut out = tree_->reduce(exec_, losses, in);
  engine_.finish(exec_, network_.parameters(), tree_->gradient(), reducer_.gradient());
  return out;
}

template <class T>
StepRecord Trainer<T>::update(std::int64_t rows, const parallel::StopFlags& flags,
                              parallel::StopFlags& decided) {
  const parallel::LaneOut lane = sum_gradient(next_batch(rows), flags);
  decided = lane.stop;
  timer_.enter(parallel::Phase::optimizer);
  const double terms =
      loss_terms(options_.loss, double(rows), network_.shape().outputs());
  const double norm = std::sqrt(scale_and_square(exec_, reducer_.gradient(), 1 / terms));
  if (lane.nonfinite > 0 || !std::isfinite(norm))
    throw Error(
        Code::numerical,
        "step " + std::to_string(progress_.step) + ", epoch " +
            std::to_string(progress_.epoch) + ": " +
            (lane.nonfinite > 0 ? "the loss" : "the gradient") +
            " is not finite; the parameters were not updated. Lower "
            "optimizer/learning_rate, set optimizer/clip_norm, or scale the data");
  StepRecord record;
  record.step = progress_.step;
  record.epoch = progress_.epoch;
  record.loss = lane.loss_sum / terms;
  record.gradient_norm = norm;
  record.learning_rate =
      options_.optimizer.learning_rate *
      schedule_factor(options_.schedule, progress_.step, total_updates());
  const double limit = options_.optimizer.clip_norm;
  optimizer_.update(exec_, network_.parameters(), reducer_.gradient(),
                    record.learning_rate, limit > 0 && norm > limit ? limit / norm : 1.0);
  engine_.form(exec_, network_.parameters());
  timer_.leave();
  progress_.epoch_loss_sum += lane.loss_sum;
  progress_.position += rows;
  progress_.samples_seen += rows;
  ++progress_.step;
  return record;
}

template <class T>
EpochRecord Trainer<T>::finish_epoch() {
  EpochRecord record;
  const double rows = double(train_.rows());
  const double none = std::numeric_limits<double>::quiet_NaN();
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

template <class T>
TrainResult Trainer<T>::run(Observer<T>& observer) {
  TrainResult result;
  elapsed_before_ = progress_.elapsed;
  const Clock::time_point start = Clock::now();
  double last = 0, steady_from = 0;
  std::int64_t steady_rows = 0;
  // A run that met its target, then was started again, has still met it.
  bool stop = ends_here(result.reason);
  timer_.start();
  while (!stop && !finished()) {
    timer_.enter(parallel::Phase::data);
    if (ordered_epoch_ != progress_.epoch) {
      train_.start_epoch(exec_, progress_.epoch, progress_.position);
      ordered_epoch_ = progress_.epoch;
    }
    const std::int64_t rows = std::min(options_.batch * options_.accumulate,
                                       train_.rows() - progress_.position);
    parallel::StopFlags decided;
    StepRecord record = update(rows, observer.flags(), decided);
    const double now = seconds_since(start);
    progress_.elapsed = elapsed_before_ + now;
    record.elapsed = progress_.elapsed;
    record.samples_per_second = double(rows) / std::max(now - last, 1e-9);
    last = now;
    result.rows += rows;
    ++result.steps;
    if (result.steps <= options_.warmup_steps)
      steady_from = now;
    else
      steady_rows += rows;

    timer_.enter(parallel::Phase::output);
    observer.on_step(record);
    const bool epoch_end = progress_.position == train_.rows();
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
        (decided.signal_stop || decided.walltime || decided.stop_now)) {
      result.reason = decided.signal_stop ? ExitReason::signal
                      : decided.walltime  ? ExitReason::walltime
                                          : ExitReason::stop_now;
      stop = true;
    }
    observer.on_boundary(*this, epoch_end, best, decided);
    timer_.leave();
  }
  timer_.stop();
  result.seconds = seconds_since(start);
  const double steady_seconds = result.seconds - steady_from;
  result.steady_rate = steady_rows > 0 ? double(steady_rows) / steady_seconds : 0;
  return result;
}

template <class T>
TrainingState<T> Trainer<T>::state() const {
  TrainingState<T> s;
  s.shape = network_.shape().all();
  s.scale_trained = network_.shape().scale_trained();
  for (int l = 0; l < network_.shape().layers(); ++l)
    s.grid.push_back(network_.knots(l).values);
  s.parameters = network_.unpack(network_.parameters());
  if (optimizer_.moments() > 0) s.first_moment = network_.unpack(optimizer_.first());
  if (optimizer_.moments() > 1) s.second_moment = network_.unpack(optimizer_.second());
  s.progress = progress_;
  s.progress.optimizer_step = optimizer_.steps();
  if (communicator_.size() > 1) {
    // Counts of this rank's rows become those of all rows.
    communicator_.allreduce_sum(std::span<std::int64_t>(s.progress.epoch_outside));
    communicator_.allreduce_sum(std::span<std::int64_t>(&s.progress.epoch_correct, 1));
  }
  s.engine = engine_.name();
  s.shards = leaves_;
  s.vector_bytes = engine_.vector_bytes();
  return s;
}

template <class T>
void Trainer<T>::restore(const TrainingState<T>& stored) {
  network_.pack(stored.parameters, network_.parameters());
  const int moments = int(!stored.first_moment.empty()) + !stored.second_moment.empty();
  if (moments != optimizer_.moments())
    throw Error(Code::checkpoint, "the checkpoint has " + std::to_string(moments) +
                                      " optimizer moments, optimizer/type needs " +
                                      std::to_string(optimizer_.moments()));
  if (moments > 0) network_.pack(stored.first_moment, optimizer_.first());
  if (moments > 1) network_.pack(stored.second_moment, optimizer_.second());
  optimizer_.set_steps(stored.progress.optimizer_step);
  progress_ = stored.progress;
  // Of a checkpoint's last epoch the loss is known where it was the best so far, as one
  // that meets a target is.
  if (progress_.best_epoch == progress_.epoch - 1) last_loss_ = progress_.best_loss;
  if (int(progress_.epoch_outside.size()) != network_.shape().layers())
    throw Error(Code::checkpoint, "the checkpoint's epoch sums do not fit the network");
  if (communicator_.rank() != 0) {
    progress_.epoch_correct = 0;
    std::fill(progress_.epoch_outside.begin(), progress_.epoch_outside.end(), 0);
  }
  if (progress_.position > train_.rows())
    throw Error(Code::checkpoint, "the checkpoint stands at row " +
                                      std::to_string(progress_.position) +
                                      " of an epoch of " + std::to_string(train_.rows()) +
                                      " rows: the training data changed");
  const auto differs = [](const std::string& what, const std::string& then,
                          const std::string& now) {
    throw Error(Code::checkpoint, "parallel/reproducible: the checkpoint was made with " +
                                      what + " " + then + ", this run has " + now);
  };
  if (options_.reproducible) {
    if (stored.engine != engine_.name()) differs("engine", stored.engine, engine_.name());
    if (stored.shards != leaves_)
      differs("shards =", std::to_string(stored.shards), std::to_string(leaves_));
    if (stored.vector_bytes != engine_.vector_bytes())
      differs("vector bytes =", std::to_string(stored.vector_bytes),
              std::to_string(engine_.vector_bytes()));
  }
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace kan
