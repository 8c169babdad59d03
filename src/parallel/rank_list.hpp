// Ranks in messages: "rank 2 of 4", "ranks 1, 2, 7, ... (12 ranks) of 64", "3 ranks".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kan::parallel {

/// "1 rank", "3 ranks"
inline std::string count_of(std::int64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// ranks: at least one.
inline std::string rank_list(const std::vector<int>& ranks, int size) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  if (ranks.size() > kShown) {
    text += ", ... (" + std::to_string(ranks.size()) + " ranks)";
  }
  return text + " of " + std::to_string(size);
}

}  // namespace kan::parallel
