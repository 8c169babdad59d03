// Compiled once per order: KAN_ORDER is given on the command line
// (src/kan/CMakeLists.txt); 0 is the form that reads the order of each layer.
#include <algorithm>

#include "kan/engine/team_tile.hpp"

namespace kan {

template <class T, int K>
void launch_team_tile(const Exec& exec, const TeamTask<T>& task, int leaves,
                      std::int64_t scratch_bytes) {
  const TeamTile<T, K> tile{task};
  using Policy = typename TeamTile<T, K>::Policy;
  const auto scratch = Kokkos::PerTeam(int(scratch_bytes));
  int threads = 1;
  if constexpr (!kHostExecution) {
    const Policy probe =
        Policy(exec, leaves, 1).set_scratch_size(task.scratch_level, scratch);
    threads = std::min(kTeamThreads, probe.team_size_max(tile, Kokkos::ParallelForTag()));
  }
  const Policy policy =
      Policy(exec, leaves, threads).set_scratch_size(task.scratch_level, scratch);
  Kokkos::parallel_for("kan::TeamTile", policy, tile);
}

template void launch_team_tile<float, KAN_ORDER>(const Exec&, const TeamTask<float>&, int,
                                                 std::int64_t);
template void launch_team_tile<double, KAN_ORDER>(const Exec&, const TeamTask<double>&,
                                                  int, std::int64_t);

}  // namespace kan
