#include "kan/update.hpp"

#include <chrono>
#include <cmath>
#include <string>

#include "kan/error.hpp"
#include "parallel/partition.hpp"

namespace kan {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

template <class T>
Update<T>::Update(const Exec& exec, const Network<T>& network, Engine<T>& engine,
                  parallel::Communicator& communicator, const TrainOptions& options,
                  const RankParts& parts, parallel::PhaseTimer& timer)
    : exec_(exec),
      queue_(exec),
      network_(network),
      engine_(engine),
      communicator_(communicator),
      loss_(options.loss),
      clip_norm_(options.optimizer.clip_norm),
      diagnose_(options.diagnose),
      leaves_(parts.leaves),
      timer_(timer),
      optimizer_(options.optimizer, network.shape().parameters()),
      reducer_(communicator, network.shape().parameters(), options.algorithm,
               options.message == parallel::MessageLayout::tensors
                   ? network.shape().tensors()
                   : std::vector<std::int64_t>()),
      outside_(network.shape().layers(), 0) {
  const int ranks = communicator.size();
  if (parts.by_leaves && options.algorithm == parallel::Algorithm::library)
    throw Error(Code::usage,
                "parallel/reproducible: the sums of parallel/algorithm = library depend "
                "on the number of ranks; leave one of them out");
  if (parts.by_leaves && ranks > leaves_)
    throw Error(Code::usage, "parallel/reproducible: " + std::to_string(ranks) +
                                 " ranks, but only " + std::to_string(leaves_) +
                                 " shards of the batch: start fewer ranks, or lower "
                                 "parallel/shard_rows, or raise optimizer/batch");
  if (parts.by_leaves && ranks > 1)
    tree_ = std::make_unique<parallel::TreeReducer<T>>(communicator,
                                                       engine.plan().table_size, leaves_);
  // The tree adds losses on the host.
  const int wanted = options.late >= 0 ? options.late : kHostExecution ? 0 : 2;
  late_ = tree_ ? 0 : wanted;
  if (late_ > 0) {
    ledger_ = std::make_unique<Ledger<T>>(network.shape().layers(),
                                          network.shape().parameters());
    Batch<T> whole;
    whole.size =
        parts.part(options.batch * options.accumulate, communicator.rank()).size();
    whole.leaves = whole.last_leaf = leaves_;
    // Nodes of a graph run on the default instance.
    record_ = options.recorded.value_or(!kHostExecution) && exec == Exec() &&
              engine.recordable(whole);
  } else {
    squares_ = MessageView1<double>("kan::Update::squares",
                                    norm_blocks(network.shape().parameters()));
  }
}

// Sums of this rank's leaves: where one message carries the gradient of the parameters,
// that; else the partial sums of the tree.
template <class T>
void Update<T>::leaf_sums(const Queue& queue) {
  if (!tree_) {
    engine_.finish(queue, network_.parameters(), engine_.add(queue, 0, leaves_),
                   reducer_.gradient());
    return;
  }
  const auto& subtrees = tree_->subtrees();
  const std::int64_t size = engine_.plan().table_size;
  for (std::size_t j = 0; j < subtrees.size(); ++j) {
    const View1<T> sum =
        engine_.add(queue, int(subtrees[j].first), int(subtrees[j].count));
    Kokkos::deep_copy(
        exec_, View1<T>(tree_->partials().data() + std::int64_t(j) * size, size), sum);
  }
}

template <class T>
parallel::LaneOut Update<T>::reduce(const BatchSums& sums,
                                    const parallel::StopFlags& flags, Scope scope) {
  parallel::LaneIn in;
  in.stop = flags;
  in.nonfinite = std::isfinite(sums.loss) ? 0 : 1;
  in.loss_sum = in.nonfinite ? 0 : sums.loss;
  if (scope == Scope::own_rank || communicator_.size() == 1)
    return {in.loss_sum, in.nonfinite, in.stop};
  if (!tree_) return reducer_.reduce(exec_, in);
  losses_.clear();
  for (const parallel::Subtree& s : tree_->subtrees()) {
    const double loss = engine_.loss(int(s.first), int(s.count));
    losses_.push_back(std::isfinite(loss) ? loss : 0);
  }
  const parallel::LaneOut out = tree_->reduce(exec_, losses_, in);
  engine_.finish(queue_, network_.parameters(), tree_->gradient(), reducer_.gradient());
  return out;
}

template <class T>
void Update<T>::wait_for_ranks(Scope scope) {
  if (!diagnose_ || scope == Scope::own_rank) return;
  timer_.enter(parallel::Phase::wait);
  exec_.fence("kan::Update: waiting is told from work");
  communicator_.barrier();
}

template <class T>
void Update<T>::start(const Batch<T>& batch, std::int64_t rows, double learning_rate,
                      const parallel::StopFlags& flags, Scope scope) {
  if (rows == 0) {
    // Updates are counted alike on all ranks: moments are averaged, and need one
    // correction.
    optimizer_.set_steps(optimizer_.steps() + 1);
    started_.emplace_back(Outcome{});
  } else if (ledger_) {
    queue(batch, rows, learning_rate, flags, scope);
    started_.emplace_back();
  } else {
    started_.emplace_back(run(batch, rows, learning_rate, flags, scope));
  }
}

template <class T>
Outcome Update<T>::take() {
  const std::optional<Outcome> outcome = started_.front();
  started_.erase(started_.begin());
  return outcome ? *outcome
                 : ledger_->take([this](double waited) { communicator_.check(waited); });
}

template <class T>
Outcome Update<T>::run(const Batch<T>& batch, std::int64_t rows, double learning_rate,
                       const parallel::StopFlags& flags, Scope scope) {
  Outcome outcome;
  timer_.enter(parallel::Phase::forward_backward);
  engine_.gradient(queue_, batch, loss_);
  leaf_sums(queue_);
  const BatchSums& sums = engine_.sums(exec_);
  correct_ += sums.correct;
  for (std::size_t l = 0; l < sums.outside.size(); ++l) outside_[l] += sums.outside[l];

  wait_for_ranks(scope);
  timer_.enter(parallel::Phase::reduce);
  const Clock::time_point start = Clock::now();
  const parallel::LaneOut lane = reduce(sums, flags, scope);
  if (scope == Scope::all_ranks)
    sums_.add(std::chrono::duration<double>(Clock::now() - start).count());
  outcome.loss_sum = lane.loss_sum;
  outcome.nonfinite = lane.nonfinite;
  outcome.own_nonfinite = !std::isfinite(sums.loss);
  outcome.stop = lane.stop;

  timer_.enter(parallel::Phase::optimizer);
  const double terms = loss_terms(loss_, double(rows), network_.shape().outputs());
  scale_and_square(queue_, reducer_.gradient(), 1 / terms, squares_.data());
  outcome.norm = std::sqrt(add_blocks(exec_, squares_));
  if (outcome.finite()) {
    const bool clipped = clip_norm_ > 0 && outcome.norm > clip_norm_;
    optimizer_.update(queue_, network_.parameters(), reducer_.gradient(), learning_rate,
                      clipped ? clip_norm_ / outcome.norm : 1.0);
    form();
  }
  timer_.leave();
  return outcome;
}

template <class T>
void Update<T>::before_sum(const Queue& queue, const Batch<T>& batch) {
  ledger_->open(queue);
  Batch<T> stored = batch;
  stored.stored = &ledger_->step()->rows;
  engine_.gradient(queue, stored, loss_);
  leaf_sums(queue);
  ledger_->sum_up(queue, engine_.leaf_sums(), communicator_.rank(), lane());
}

template <class T>
void Update<T>::after_sum(const Queue& queue) {
  ledger_->judge(queue, reducer_.gradient(), clip_norm_, lane());
  optimizer_.update(queue, network_.parameters(), reducer_.gradient(),
                    &ledger_->step()->rates, ledger_->verdict());
  engine_.form(queue, network_.parameters());
}

// Batches of an epoch have one size, but the last; another size may come with a restart
// in the middle of an epoch. What has no place is launched kernel by kernel.
template <class T>
const typename Update<T>::Recorded* Update<T>::recording_of(const Batch<T>& batch) {
  constexpr std::size_t kMost = 2;
  if (!record_ || !engine_.recordable(batch)) return nullptr;
  if (!recorded_.empty() && recorded_[0].moves != engine_.moves()) recorded_.clear();
  for (const Recorded& r : recorded_)
    if (r.size == batch.size && r.first_leaf == batch.first_leaf &&
        r.last_leaf == batch.last_leaf)
      return &r;
  if (recorded_.size() == kMost) return nullptr;
  Recorded made{batch.size, batch.first_leaf, batch.last_leaf, 0, {}};
  const bool split = communicator_.size() > 1;
  made.parts.emplace_back(exec_, [&](const Queue& queue) {
    before_sum(queue, batch);
    if (!split) after_sum(queue);
  });
  if (split)
    made.parts.emplace_back(exec_, [&](const Queue& queue) { after_sum(queue); });
  made.moves = engine_.moves();
  recorded_.push_back(std::move(made));
  return &recorded_.back();
}

// The same as run(), where no step of it waits for the host.
template <class T>
void Update<T>::queue(const Batch<T>& batch, std::int64_t rows, double learning_rate,
                      const parallel::StopFlags& flags, Scope scope) {
  timer_.enter(parallel::Phase::forward_backward);
  const double terms = loss_terms(loss_, double(rows), network_.shape().outputs());
  ledger_->set({0, batch.rows(), 1 / terms, optimizer_.count(learning_rate), flags});
  const Recorded* const recorded = recording_of(batch);
  if (recorded != nullptr)
    recorded->parts[0].launch(exec_);
  else
    before_sum(queue_, batch);
  wait_for_ranks(scope);
  timer_.enter(parallel::Phase::reduce);
  if (scope == Scope::all_ranks) reducer_.sum(exec_);
  timer_.enter(parallel::Phase::optimizer);
  if (recorded == nullptr)
    after_sum(queue_);
  else if (recorded->parts.size() > 1)
    recorded->parts[1].launch(exec_);
  timer_.leave();
}

template <class T>
std::int64_t Update<T>::sum_bytes() const {
  const std::size_t numbers = tree_ ? tree_->partials().size() : reducer_.buffer().size();
  return std::int64_t(numbers * sizeof(T));
}

template <class T>
void Update<T>::take_counts(Progress& progress) {
  if (ledger_) ledger_->take_counts(exec_, progress);
  progress.epoch_correct += correct_;
  correct_ = 0;
  for (std::size_t l = 0; l < outside_.size(); ++l) {
    progress.epoch_outside[l] += outside_[l];
    outside_[l] = 0;
  }
}

template class Update<float>;
template class Update<double>;

}  // namespace kan
