// Launches of the two stages, one instance per order of the splines (team_order.cpp).
#pragma once

#include "kan/engine/team_task.hpp"

namespace kan {

/// Bytes of scratch of a team: what is always near, and activations at their level.
struct TileScratch {
  std::int64_t near, far;
  int most_order;
};

template <class T, int K>
void launch_team_tile(const Queue& queue, const TeamTask<T>& task,
                      const TileScratch& scratch);
template <class T, int K>
void launch_team_gradient(const Queue& queue, const TeamTask<T>& task, bool sums_in_table,
                          std::int64_t scratch_bytes);

}  // namespace kan
