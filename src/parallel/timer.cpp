// The phase table of a run: one maximum (of the times and of minus the times) and one sum
// over ranks.
#include "parallel/timer.hpp"

#include <span>

#include "parallel/communicator.hpp"

namespace kan::parallel {

PhaseTable PhaseTimer::summarize(Communicator& communicator) const {
  constexpr std::size_t kColumns = kPhases + 1;
  std::array<double, kColumns> sum{};
  for (std::size_t p = 0; p < kPhases; ++p) sum[p] = seconds(static_cast<Phase>(p));
  sum[kPhases] = elapsed();
  std::array<double, 2 * kColumns> extremes{};
  for (std::size_t p = 0; p < kColumns; ++p) {
    extremes[p] = sum[p];
    extremes[kColumns + p] = -sum[p];
  }
  communicator.allreduce_sum(std::span<double>(sum));
  communicator.allreduce_max(std::span<double>(extremes));
  PhaseTable table;
  for (std::size_t p = 0; p < kColumns; ++p) {
    PhaseSpread& spread = p < kPhases ? table.phases[p] : table.elapsed;
    spread = {-extremes[kColumns + p], sum[p] / communicator.size(), extremes[p]};
  }
  return table;
}

}  // namespace kan::parallel
