// Metrics of a set in the user's units.
#pragma once

#include <vector>

#include "kan/trainer.hpp"

namespace kan::run {

struct SetMetrics {
  double loss, accuracy;  ///< mean loss in scaled units; NaN where there is none
  double rmse;            ///< in original units, over all outputs; NaN for classes
  std::vector<double> outside;
};

/// Collective. prediction (rows, out), if given, receives the unscaled predictions
/// (logits for classes), the same on every rank.
template <class T>
SetMetrics measure_set(const Exec& exec, Engine<T>& engine,
                       parallel::Communicator& communicator, const RowSet<T>& set,
                       LossKind loss, const Scaling& target_scaling,
                       std::vector<T>* prediction = nullptr);

}  // namespace kan::run
