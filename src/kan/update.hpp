// One update of the parameters:
//   rows of the batch -> engine (leaf gradients) -> sum over leaves and ranks, with the
//   control lane in the same message -> mean, norm, clipping -> optimizer -> table of
//   coefficients for the next update
// What came of it (loss, norm, whether any value was not finite, reasons to stop) is read
// from reduced values, so all ranks see the same. An update with a value that is not
// finite changes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kan/engine/engine.hpp"
#include "kan/ledger.hpp"
#include "kan/network.hpp"
#include "kan/optimizer.hpp"
#include "kan/queue.hpp"
#include "kan/row_feed.hpp"
#include "kan/state.hpp"
#include "parallel/call_times.hpp"
#include "parallel/communicator.hpp"
#include "parallel/control_lane.hpp"
#include "parallel/reducer.hpp"
#include "parallel/timer.hpp"
#include "parallel/tree.hpp"

namespace kan {

/// all_ranks: one model over all ranks. own_rank: from this rank's rows alone, without a
/// message, as between two averages of local SGD.
enum class Scope { all_ranks, own_rank };

template <class T>
class Update {
 public:
  /// Everything must outlive the object. parts: how batches are cut for ranks.
  Update(const Exec& exec, const Network<T>& network, Engine<T>& engine,
         parallel::Communicator& communicator, const TrainOptions& options,
         const RankParts& parts, parallel::PhaseTimer& timer);

  /// Collective in scope all_ranks. batch: this rank's part; rows: of the scope, may be 0
  /// for own_rank: then the update is only counted. Starts an update; what it came to is
  /// to be taken, in the same order.
  void start(const Batch<T>& batch, std::int64_t rows, double learning_rate,
             const parallel::StopFlags& flags, Scope scope);
  /// Of the oldest update that has not been taken; on a device it may have to be waited
  /// for, which late() updates under way avoid.
  Outcome take();
  /// Updates that may be under way while the next one is started: 0 where kernels run on
  /// the host.
  int late() const { return late_; }
  /// Whether the kernels of an update are recorded as a graph, and launched as one.
  bool recorded() const { return record_; }

  /// Adds what this rank's rows have counted since the last call: right classes, and
  /// inputs outside the grid per layer.
  void take_counts(Progress& progress);
  /// After a change of the parameters by others.
  void form() { engine_.form(queue_, network_.parameters()); }
  /// Sums over ranks so far (where the host waits for them), and bytes of one.
  const parallel::CallTimes& sums() const { return sums_; }
  std::int64_t sum_bytes() const;
  /// An average of local SGD is one too.
  void count_sum(double seconds) { sums_.add(seconds); }
  Optimizer<T>& optimizer() { return optimizer_; }
  const Optimizer<T>& optimizer() const { return optimizer_; }

 private:
  /// Recorded kernels of updates whose batches differ only in what a Step holds: up to
  /// the sum over ranks, and behind it; one where there is a single rank.
  struct Recorded {
    std::int64_t size;
    int first_leaf, last_leaf, moves;
    std::vector<Recording> parts;
  };

  void leaf_sums(const Queue& queue);
  void before_sum(const Queue& queue, const Batch<T>& batch);
  void after_sum(const Queue& queue);
  T* lane() const { return reducer_.buffer().data() + network_.shape().parameters(); }
  const Recorded* recording_of(const Batch<T>& batch);
  parallel::LaneOut reduce(const BatchSums& sums, const parallel::StopFlags& flags,
                           Scope scope);
  void wait_for_ranks(Scope scope);
  Outcome run(const Batch<T>& batch, std::int64_t rows, double learning_rate,
              const parallel::StopFlags& flags, Scope scope);
  void queue(const Batch<T>& batch, std::int64_t rows, double learning_rate,
             const parallel::StopFlags& flags, Scope scope);

  const Exec& exec_;
  Queue queue_;
  const Network<T>& network_;
  Engine<T>& engine_;
  parallel::Communicator& communicator_;
  LossKind loss_;
  double clip_norm_;
  bool diagnose_;
  int leaves_;
  parallel::PhaseTimer& timer_;
  Optimizer<T> optimizer_;
  std::unique_ptr<parallel::TreeReducer<T>> tree_;  ///< reproducible, several ranks
  parallel::GradientReducer<T> reducer_;
  int late_;
  std::unique_ptr<Ledger<T>> ledger_;            ///< where outcomes are read late
  std::vector<std::optional<Outcome>> started_;  ///< none: the ledger knows it
  bool record_ = false;
  std::vector<Recorded> recorded_;
  MessageView1<double> squares_;  ///< squared norm, by blocks; of run()
  std::vector<double> losses_;    ///< of the subtrees
  parallel::CallTimes sums_;
  std::int64_t correct_ = 0;
  std::vector<std::int64_t> outside_;
};

extern template class Update<float>;
extern template class Update<double>;

}  // namespace kan
