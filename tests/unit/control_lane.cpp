// The control lane with the reduction simulated: ranks' slots are added in the element
// type in several orders. Oracles: integer arithmetic, and sums in long double.
#include "parallel/control_lane.hpp"

#include <algorithm>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

namespace {

using kan::parallel::kLaneSlots;
using kan::parallel::LaneIn;
using kan::parallel::LaneOut;

/// Adds the ranks' lanes in the order given, as a message library would.
template <class T>
LaneOut summed(const std::vector<LaneIn>& ranks, const std::vector<int>& order) {
  std::array<T, kLaneSlots> sum{};
  for (const int rank : order) {
    std::array<T, kLaneSlots> slots{};
    kan::parallel::encode_lane(
        kan::parallel::sanitized<T>(ranks[static_cast<std::size_t>(rank)], rank),
        std::span<T, kLaneSlots>(slots));
    for (int i = 0; i < kLaneSlots; ++i) sum[i] += slots[i];
  }
  return kan::parallel::decode_lane(std::span<const T, kLaneSlots>(sum));
}

std::vector<int> shuffled(int ranks, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) order[static_cast<std::size_t>(r)] = r;
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

TEMPLATE_TEST_CASE("counts are exact whatever the order, up to 4096 ranks", "", float,
                   double) {
  std::mt19937_64 random(7);
  for (const int ranks : {1, 2, 3, 100, 4096}) {
    std::vector<LaneIn> in(static_cast<std::size_t>(ranks));
    std::int64_t expected = 0;
    for (LaneIn& one : in) {
      one.nonfinite = static_cast<std::int64_t>(random() >> 28);  // 36 bits
      expected += one.nonfinite;
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
      REQUIRE(summed<TestType>(in, shuffled(ranks, random)).nonfinite == expected);
    }
    for (LaneIn& one : in) one.nonfinite = kan::parallel::kLaneMaxCount;
    REQUIRE(summed<TestType>(in, shuffled(ranks, random)).nonfinite ==
            ranks * kan::parallel::kLaneMaxCount);
  }
}

TEMPLATE_TEST_CASE("a flag of any one rank reaches all, the clock's of rank 0 only", "",
                   float, double) {
  using kan::parallel::StopFlags;
  constexpr bool StopFlags::* kFlags[] = {
      &StopFlags::signal_stop, &StopFlags::signal_checkpoint, &StopFlags::stop_now,
      &StopFlags::output_now, &StopFlags::walltime};
  std::mt19937_64 random(11);
  for (const int raiser : {0, 5, 4095}) {
    for (const auto flag : kFlags) {
      std::vector<LaneIn> in(4096);
      in[static_cast<std::size_t>(raiser)].stop.*flag = true;
      StopFlags expected;
      expected.*flag = flag != &StopFlags::walltime || raiser == 0;
      REQUIRE(summed<TestType>(in, shuffled(4096, random)).stop == expected);
    }
  }
  std::vector<LaneIn> all(4096);
  for (LaneIn& one : all) one.stop = {true, true, true, true, true};
  CHECK(summed<TestType>(all, shuffled(4096, random)).stop ==
        StopFlags{true, true, true, true, true});
}

TEMPLATE_TEST_CASE("losses of similar size add up to far more than a float holds", "",
                   float, double) {
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> uniform(0.5, 2.0);
  for (const double scale : {1.0, 1e-12, 1e12, -3.0}) {
    for (const int ranks : {1, 2, 8, 512}) {
      std::vector<LaneIn> in(static_cast<std::size_t>(ranks));
      long double exact = 0;
      for (LaneIn& one : in) {
        one.loss_sum = scale * uniform(random);
        exact += one.loss_sum;
      }
      const double got = summed<TestType>(in, shuffled(ranks, random)).loss_sum;
      const double error = std::abs(static_cast<double>((got - exact) / exact));
      CHECK(error < 1.0 / (std::int64_t{1} << 33));  // a float alone: 6e-8
      if (std::is_same_v<TestType, double>) CHECK(error < 1e-15);
    }
  }
}

TEMPLATE_TEST_CASE("a non-finite or overflowing loss is counted and kept out of the sum",
                   "", float, double) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double large = std::numeric_limits<TestType>::max();
  for (const double bad : {nan, infinity, -infinity, large, -large}) {
    std::vector<LaneIn> in(4);
    for (LaneIn& one : in) one.loss_sum = 0.25;
    in[2].loss_sum = bad;
    const LaneOut out = summed<TestType>(in, {0, 1, 2, 3});
    CHECK(out.loss_sum == 0.75);
    CHECK(out.nonfinite == 1);
    in[2].nonfinite = 17;  // the engine's own count is kept
    CHECK(summed<TestType>(in, {3, 2, 1, 0}).nonfinite == 17);
  }
  std::vector<LaneIn> in(4096);
  for (LaneIn& one : in) one.loss_sum = large / 8192;
  std::mt19937_64 random(1);
  const LaneOut out = summed<TestType>(in, shuffled(4096, random));
  CHECK(std::isfinite(out.loss_sum));
  CHECK(out.nonfinite == 0);
}

TEST_CASE("counts out of range are capped instead of spoiling other slots") {
  const LaneIn high =
      kan::parallel::sanitized<float>({1.0, std::int64_t{1} << 40, {}}, 0);
  CHECK(high.nonfinite == kan::parallel::kLaneMaxCount);
  CHECK(kan::parallel::sanitized<float>({1.0, -3, {}}, 0).nonfinite == 0);
  CHECK(summed<float>({{0.0, 0, {}}}, {0}).loss_sum == 0.0);
}

}  // namespace
