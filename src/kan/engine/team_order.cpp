// Compiled once per order: KAN_ORDER is given on the command line
// (src/kan/CMakeLists.txt); 0 is the form that reads the order of each layer.
#include "kan/engine/team_gradient.hpp"
#include "kan/engine/team_launch.hpp"
#include "kan/engine/team_tile.hpp"

namespace kan {

template <class T, int K>
void launch_team_tile(const Queue& queue, const TeamTask<T>& task,
                      const TileScratch& scratch) {
  using Kernel = TeamTile<T, K>;
  const bool near = task.activations_level == 0;
  const auto policy =
      typename Kernel::Policy(queue.exec(), task.leaves * task.tiles, kTeamSize)
          .set_scratch_size(0,
                            Kokkos::PerTeam(int(scratch.near + (near ? scratch.far : 0))))
          .set_scratch_size(1, Kokkos::PerTeam(near ? 0 : int(scratch.far)));
  queue.parallel_for("kan::TeamTile", policy, Kernel{task, scratch});
}

template <class Kernel, class T>
void launch_gradient(const Queue& queue, const TeamTask<T>& task, std::int64_t bytes) {
  const auto policy =
      typename Kernel::Policy(queue.exec(), task.leaves * task.teams, kTeamSize)
          .set_scratch_size(0, Kokkos::PerTeam(int(bytes)));
  queue.parallel_for("kan::TeamGradient", policy, Kernel{task, bytes});
}

template <class T, int K>
void launch_team_gradient(const Queue& queue, const TeamTask<T>& task, bool sums_in_table,
                          std::int64_t scratch_bytes) {
  if (sums_in_table)
    launch_gradient<TeamGradient<T, K, true>>(queue, task, scratch_bytes);
  else
    launch_gradient<TeamGradient<T, K, false>>(queue, task, scratch_bytes);
}

#define KAN_TEAM_INSTANCES(T)                                                        \
  template void launch_team_tile<T, KAN_ORDER>(const Queue&, const TeamTask<T>&,     \
                                               const TileScratch&);                  \
  template void launch_team_gradient<T, KAN_ORDER>(const Queue&, const TeamTask<T>&, \
                                                   bool, std::int64_t);
KAN_TEAM_INSTANCES(float)
KAN_TEAM_INSTANCES(double)
#undef KAN_TEAM_INSTANCES

}  // namespace kan
