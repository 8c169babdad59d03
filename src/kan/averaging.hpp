// Local SGD: between two averages each rank makes updates from its own rows, without a
// message; an average then makes the parameters (and the optimizer's moments) of all
// ranks their mean, weighted by the rows each has used since the last one.
//   p = sum_r n_r p_r / sum_r n_r                   (Stich 2019; Lin et al. 2020)
// What the updates in between came to is known to a rank for its own rows only; an
// average sums it, so that the history has one loss per update of all rows. A rank whose
// update was not finite stays as it is until the average, which says so.
#pragma once

#include <cstdint>
#include <vector>

#include "kan/update.hpp"

namespace kan {

/// An update of this rank that waits for the next average. sums and norm: Outcome's, of
/// own rows.
struct LocalUpdate {
  StepRecord record;
  double loss_sum = 0, norm = 0;
  std::int64_t rows = 0;  ///< of the batch over all ranks
};

template <class T>
class Averaging {
 public:
  /// with_parameters: whether parameters are averaged; without, ranks only sum up what
  /// they have counted (for measurements without communication).
  Averaging(const Exec& exec, const Network<T>& network, Update<T>& update,
            parallel::Communicator& communicator, Moments moments, bool with_parameters);

  /// Whether this rank still makes updates.
  bool frozen() const { return in_.nonfinite > 0; }
  std::int64_t size() const { return std::int64_t(waiting_.size()); }
  /// Of the message of an average.
  std::int64_t bytes() const {
    return std::int64_t(reducer_.buffer().size() * sizeof(T));
  }
  /// One update of own_rows rows of this rank.
  void add(const LocalUpdate& local, const Outcome& outcome, std::int64_t own_rows);
  void raise(const parallel::StopFlags& flags) { in_.stop |= flags; }

  /// Collective. Averages, and gives back the updates since the last call with the loss
  /// sums of all ranks and the root mean square of their gradient norms. lane: flags and
  /// non-finite counts of all ranks.
  std::vector<LocalUpdate> average(parallel::LaneOut& lane);

 private:
  std::vector<View1<T>> parts() const;

  const Exec& exec_;
  const Network<T>& network_;
  Update<T>& update_;
  parallel::Communicator& communicator_;
  Moments moments_;
  bool with_parameters_;
  parallel::GradientReducer<T> reducer_;
  std::vector<LocalUpdate> waiting_;
  parallel::LaneIn in_;
  std::int64_t own_rows_ = 0, rows_ = 0;
};

extern template class Averaging<float>;
extern template class Averaging<double>;

}  // namespace kan
