// What changes from one update to the next. The kernels of an update may be recorded
// once (queue.hpp); what they need to know of the update at hand they read from a Step in
// their memory, which the first of them fills (ledger.hpp).
#pragma once

#include <cstdint>

#include "kan/engine/engine.hpp"
#include "kan/optimizer.hpp"
#include "parallel/control_lane.hpp"

namespace kan {

template <class T>
struct Step {
  std::int64_t number = 0;  ///< updates started, this one included
  Rows<T> rows;             ///< of the batch
  double factor = 1;        ///< from the sum of gradients to the mean
  Rates rates;
  parallel::StopFlags stop;  ///< raised by this rank
};

}  // namespace kan
