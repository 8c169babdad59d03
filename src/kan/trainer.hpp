// The training loop: epochs and updates, and nothing about decks, files or screens; an
// Observer is told what happened and writes what is due.
//
// An epoch is a sequence of updates (update.hpp) of the rows that a feed hands out; under
// local SGD averages (averaging.hpp) stand between them. Every decision (stop,
// not-a-number, what is written) is taken from reduced values and only where all ranks
// are at one, so all take it at the same step.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kan/averaging.hpp"
#include "kan/engine/engine.hpp"
#include "kan/row_feed.hpp"
#include "kan/state.hpp"
#include "kan/update.hpp"
#include "parallel/communicator.hpp"
#include "parallel/timer.hpp"

namespace kan {

/// Mean loss, share of right classes (NaN without classes), outside share per layer.
struct Metrics {
  double loss = 0, accuracy = 0;
  std::vector<double> outside;
};

/// Collective. Metrics of all rows, each rank taking its share; prediction (rows, out) is
/// filled on every rank that asks for it with the rows of all ranks, unless empty.
template <class T>
Metrics evaluate(const Exec& exec, Engine<T>& engine,
                 parallel::Communicator& communicator, const RowSet<T>& set,
                 LossKind loss, const View2<T>& prediction = {});

enum class ExitReason { done, target_loss, patience, walltime, signal, stop_now };
const char* name_of(ExitReason reason);

/// V, the leaves of a gradient sum: in reproducible mode by the rule of partition.hpp,
/// else from the rows of one rank and its threads. rows: of the training set.
int leaves_for(const TrainOptions& options, std::int64_t rows, int ranks, int threads,
               const Shape& shape);

/// The same on every rank.
RankParts rank_parts(const TrainOptions& options, std::int64_t rows, int ranks,
                     int threads, const Shape& shape);

template <class T>
class Trainer;

/// What the trainer tells and asks. All calls are made on all ranks, between two updates.
template <class T>
class Observer {
 public:
  virtual ~Observer() = default;
  /// Reasons to stop or write seen by this rank; asked once per update. The calls below
  /// come when all ranks are at one: after each update, or after an average for those
  /// since the last one.
  virtual parallel::StopFlags flags() = 0;
  /// After each update.
  virtual void on_step(const StepRecord& record) = 0;
  /// After each epoch; best: its loss is the lowest so far.
  virtual void on_epoch(const EpochRecord& record, bool best) = 0;
  /// After on_step and on_epoch: write what is due. decided: what any rank asked for.
  virtual void on_boundary(Trainer<T>& trainer, bool epoch_end, bool best,
                           const parallel::StopFlags& decided) = 0;
};

struct TrainResult {
  ExitReason reason = ExitReason::done;
  std::int64_t rows = 0;   ///< of all updates of this launch
  std::int64_t steps = 0;  ///< updates of this launch
  double seconds = 0;      ///< first step's start to last step's end
  double steady_rate = 0;  ///< rows per second without the first warmup_steps
  std::optional<EpochRecord> last_epoch;  ///< the last one that ended in this launch
};

template <class T>
class Trainer {
 public:
  /// Everything must outlive the trainer. stored: state of a checkpoint to go on from.
  Trainer(const Exec& exec, const Network<T>& network, Engine<T>& engine,
          parallel::Communicator& communicator, const TrainOptions& options,
          RowFeed<T>& train, const RowSet<T>& validation, parallel::PhaseTimer& timer,
          const TrainingState<T>* stored);

  TrainResult run(Observer<T>& observer);

  /// Waits for the updates under way, then copies everything that a checkpoint holds of
  /// the network and its training.
  TrainingState<T> state();
  const Progress& progress() const { return progress_; }
  Engine<T>& engine() const { return engine_; }
  const Network<T>& network() const { return network_; }
  int leaves() const { return parts_.leaves; }
  /// Whether updates are recorded as a graph of kernels.
  bool recorded() const { return update_.recorded(); }
  /// Sums over ranks (where the host waits for them): of gradients, or averages.
  const parallel::CallTimes& sums() const { return update_.sums(); }
  std::int64_t sum_bytes() const {
    return averaging_ ? averaging_->bytes() : update_.sum_bytes();
  }
  std::int64_t updates_per_epoch() const;
  /// Updates of the whole run, from epochs and steps.
  std::int64_t total_updates() const;

 private:
  /// An update whose outcome has not been taken.
  struct Started {
    LocalUpdate update;
    bool local = false;
    std::int64_t own_rows = 0;
  };

  Batch<T> next_batch(std::int64_t rows, const parallel::Range& own);
  void step(std::int64_t rows, const parallel::StopFlags& flags);
  void settle(std::int64_t left);
  bool at_one(bool epoch_end);
  void publish();
  [[noreturn]] void fail_numerically(const std::string& where, bool loss, bool own);
  void compare_ranks();
  EpochRecord finish_epoch();
  bool finished() const;
  bool ends_here(ExitReason& reason) const;
  void restore(const TrainingState<T>& stored);

  const Exec& exec_;
  const Network<T>& network_;
  Engine<T>& engine_;
  parallel::Communicator& communicator_;
  TrainOptions options_;
  RowFeed<T>& train_;
  const RowSet<T>& validation_;
  parallel::PhaseTimer& timer_;
  RankParts parts_;
  Update<T> update_;
  std::unique_ptr<Averaging<T>> averaging_;  ///< where updates can be of one rank
  std::vector<Started> started_;
  std::vector<LocalUpdate> finished_;  ///< of all ranks, not told yet
  parallel::StopFlags decided_;        ///< what any rank asked for
  std::int64_t ordered_epoch_ = -1;
  Progress progress_;
  double elapsed_before_ = 0, published_ = 0;
  Observer<T>* observer_ = nullptr;  ///< during run()
  /// What the last epoch is judged by; infinity where it is not known.
  double last_loss_ = std::numeric_limits<double>::infinity();
};

extern template class Trainer<float>;
extern template class Trainer<double>;

}  // namespace kan
