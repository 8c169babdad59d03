// Times of single calls: how many, the shortest and longest, and the median to within 5
// %, from counts in steps of 2^(1/8); a few hundred bytes however many calls there are.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace kan::parallel {

class CallTimes {
 public:
  void add(double seconds) {
    shortest_ = calls_ == 0 ? seconds : std::min(shortest_, seconds);
    longest_ = std::max(longest_, seconds);
    total_ += seconds;
    ++calls_;
    ++counts_[bin(seconds)];
  }
  std::int64_t calls() const { return calls_; }
  /// Seconds; 0 without a call.
  double total() const { return total_; }
  double shortest() const { return shortest_; }
  double longest() const { return longest_; }
  double median() const {
    std::int64_t seen = 0;
    for (int b = 0; b < kBins; ++b) {
      seen += counts_[b];
      if (calls_ > 0 && 2 * seen >= calls_)
        return std::clamp(kLeast * std::exp2((b + 0.5) / kPerOctave), shortest_,
                          longest_);
    }
    return 0;
  }

 private:
  static constexpr int kPerOctave = 8, kBins = 40 * kPerOctave;
  static constexpr double kLeast = 1e-9;
  static int bin(double seconds) {
    const double octaves = std::log2(std::max(seconds, kLeast) / kLeast);
    return std::min(int(octaves * kPerOctave), kBins - 1);
  }

  std::int64_t calls_ = 0;
  double total_ = 0, shortest_ = 0, longest_ = 0;
  std::array<std::int64_t, kBins> counts_{};
};

}  // namespace kan::parallel
