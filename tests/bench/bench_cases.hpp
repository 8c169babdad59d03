// What kan_bench measures: one line a case. A case is a whole training step of one model
// at one batch in one precision; its name says all of it, e.g.
//   2-64-1_G5_k3_b1024_f32        64-64-64_G5_k3_b1024_f32_quantile
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kan/network.hpp"

namespace kan::bench {

enum class Grid {
  uniform,
  quantile
};  ///< quantile: knots at quantiles of a normal sample

struct Case {
  std::vector<int> widths{};
  int grid = 5, order = 3;
  std::int64_t batch = 1024;
  bool fp64 = false;
  Grid knots = Grid::uniform;
  bool reproducible = false;
  bool full = false;  ///< the batch is all rows
  /// Bar in ns per (sample x edge) on a core whose FMA rate from L1 is kBarRate; 0: none.
  double bar = 0;
  /// A case whose time in the same round this one's is divided by, and the bar of that
  /// ratio; empty: none.
  std::string against{};
  double ratio_bar = 0;

  std::string name() const;
  std::int64_t edges() const;
  NetworkOptions network() const;
};

/// GFLOP/s of FMA with one operand from L1, float, 256-bit vectors, one thread, of the
/// machine that bars are stated for.
inline constexpr double kBarRate = 94;

/// The table.
std::vector<Case> all_cases();

/// FMA operations of one training step per (sample x edge): k+2 each for the output, the
/// coefficient gradient and, but for the first layer, the input gradient.
double operations(const Case& c);

}  // namespace kan::bench
