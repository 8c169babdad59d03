// One update of the parameters:
//   rows of the batch -> engine (leaf gradients) -> sum over leaves and ranks, with the
//   control lane in the same message -> mean, norm, clipping -> optimizer -> table of
//   coefficients for the next update
// What came of it (loss, norm, whether any value was not finite, reasons to stop) is read
// from reduced values, so all ranks see the same. An update with a value that is not
// finite changes nothing.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "kan/engine/engine.hpp"
#include "kan/network.hpp"
#include "kan/optimizer.hpp"
#include "kan/row_feed.hpp"
#include "kan/state.hpp"
#include "parallel/communicator.hpp"
#include "parallel/control_lane.hpp"
#include "parallel/reducer.hpp"
#include "parallel/timer.hpp"
#include "parallel/tree.hpp"

namespace kan {

/// all_ranks: one model over all ranks. own_rank: from this rank's rows alone, without a
/// message, as between two averages of local SGD.
enum class Scope { all_ranks, own_rank };

/// Of one update; sums and norm are over the scope's rows.
struct Outcome {
  double loss_sum = 0;
  std::int64_t nonfinite = 0;  ///< ranks whose loss is not finite
  bool own_nonfinite = false;  ///< this rank's loss is one of them
  double norm = 0;             ///< of the mean gradient, before clipping
  parallel::StopFlags stop;    ///< raised by any rank of the scope
  /// Whether the parameters were updated.
  bool finite() const { return nonfinite == 0 && std::isfinite(norm); }
};

template <class T>
class Update {
 public:
  /// Everything must outlive the object. parts: how batches are cut for ranks.
  Update(const Exec& exec, const Network<T>& network, Engine<T>& engine,
         parallel::Communicator& communicator, const TrainOptions& options,
         const RankParts& parts, parallel::PhaseTimer& timer);

  /// Collective in scope all_ranks. batch: this rank's part; rows: of the scope, may be 0
  /// for own_rank, then nothing is done.
  Outcome run(const Batch<T>& batch, std::int64_t rows, double learning_rate,
              const parallel::StopFlags& flags, Scope scope);

  /// Adds what this rank's rows have counted since the last call: right classes, and
  /// inputs outside the grid per layer.
  void take_counts(Progress& progress);
  /// After a change of the parameters by others.
  void form() { engine_.form(exec_, network_.parameters()); }
  Optimizer<T>& optimizer() { return optimizer_; }
  const Optimizer<T>& optimizer() const { return optimizer_; }

 private:
  void leaf_sums();
  parallel::LaneOut reduce(const BatchSums& sums, const parallel::StopFlags& flags,
                           Scope scope);

  const Exec& exec_;
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
  std::int64_t correct_ = 0;
  std::vector<std::int64_t> outside_;
};

extern template class Update<float>;
extern template class Update<double>;

}  // namespace kan
