// Pairwise sums: against whole numbers that add up without rounding, and for P a power of
// two bit for bit against the tree of the definition, sum(a, 2c) = sum(a, c) +
// sum(a + c, c), in both forms. Smaller numbers of ranks are made by splitting.
#include "parallel/exchange.hpp"

#include <bit>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "mpi/agree.hpp"

namespace {

using kan::parallel::LaneWords;
using kan::parallel::PairwiseForm;
using kan::parallel::PairwiseSum;

constexpr PairwiseForm kForms[] = {PairwiseForm::automatic, PairwiseForm::doubling,
                                   PairwiseForm::halving};

/// Mixed signs and sizes, denormals among them, so that the order of additions shows. No
/// products, which a compiler would fuse with the additions.
template <class T>
T value(int rank, std::size_t i) {
  std::uint64_t bits =
      (static_cast<std::uint64_t>(rank) * 1000003 + i) * 0x9e3779b97f4a7c15u;
  bits ^= bits >> 29;
  bits *= 0xbf58476d1ce4e5b9u;
  const double mantissa = static_cast<double>(bits >> 11) / std::exp2(53) - 0.5;
  const int exponent = static_cast<int>(bits % 13) - 6;
  constexpr int kSmallest = std::numeric_limits<T>::min_exponent;
  return static_cast<T>(std::ldexp(mantissa, i % 17 == 3 ? kSmallest : exponent));
}

/// The definition.
template <class T>
T tree(int first, int count, std::size_t i) {
  if (count == 1) return value<T>(first, i);
  const T left = tree<T>(first, count / 2, i);
  const T right = tree<T>(first + count / 2, count / 2, i);
  return left + right;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Calls check(ranks, P) on the first P ranks, P = 1, 2, ..., and all must agree.
template <class Check>
void for_ranks(const Check& check) {
  const auto world = kan::parallel::make_communicator();
  for (int P = 1; P <= world->size(); ++P) {
    const auto ranks = world->split(world->rank() < P ? 0 : -1, world->rank());
    const bool ok = ranks == nullptr || check(*ranks, P);
    INFO(P << " ranks");
    REQUIRE(on_all(*world, ok));
  }
}

TEMPLATE_TEST_CASE("whole numbers add up exactly", "", float, double) {
  for (const std::size_t n :
       {0u, 1u, 2u, 15u, 16u, 17u, 1001u, 4096u, 4097u, 21552u, (1u << 20) + 1}) {
    INFO(n << " elements");
    for_ranks([n](auto& ranks, int P) {
      bool ok = true;
      for (const PairwiseForm form : kForms) {
        std::vector<TestType> values(n);
        for (std::size_t i = 0; i < n; ++i)
          values[i] =
              static_cast<TestType>(static_cast<int>(i % 1000) * (ranks.rank() + 1));
        PairwiseSum<TestType>(ranks, form).sum(std::span<TestType>(values));
        for (std::size_t i = 0; i < n; ++i)
          ok = ok && values[i] == static_cast<int>(i % 1000) * P * (P + 1) / 2;
      }
      return ok;
    });
  }
}

TEMPLATE_TEST_CASE("one tree over ranks, the same bits in both forms", "", float,
                   double) {
  for (const std::size_t n : {1u, 5u, 100u, 2698u, 21552u}) {
    INFO(n << " elements");
    for_ranks([n](auto& ranks, int P) {
      const bool power = std::has_single_bit(static_cast<unsigned>(P));
      std::vector<TestType> expected(n);
      if (power)
        for (std::size_t i = 0; i < n; ++i) expected[i] = tree<TestType>(0, P, i);
      bool ok = true;
      for (const PairwiseForm form : kForms) {
        std::vector<TestType> values(n);
        for (std::size_t i = 0; i < n; ++i) values[i] = value<TestType>(ranks.rank(), i);
        PairwiseSum<TestType>(ranks, form).sum(std::span<TestType>(values));
        // For other P the first result is what all others must be, and all ranks alike.
        if (!power && form == PairwiseForm::automatic) expected = values;
        ok = ok && same_bits(values, expected) &&
             same_on_all(ranks, std::span<const TestType>(values));
      }
      return ok;
    });
  }
}

TEST_CASE("the values would show another order of additions") {
  int different = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    float sum = 0;
    for (int rank = 0; rank < 8; ++rank) sum += value<float>(rank, i);
    different += sum != tree<float>(0, 8, i) ? 1 : 0;
  }
  CHECK(different > 300);
}

TEMPLATE_TEST_CASE("infinities and not-a-numbers stay where they are", "", float,
                   double) {
  using Limits = std::numeric_limits<TestType>;
  for_ranks([](auto& ranks, int P) {
    bool ok = true;
    for (const PairwiseForm form : kForms) {
      std::vector<TestType> values(101, 1);
      if (ranks.rank() == P - 1) {
        values[0] = Limits::infinity();
        values[50] = Limits::quiet_NaN();
        values[100] = -Limits::infinity();
      }
      values[7] = Limits::denorm_min();
      PairwiseSum<TestType>(ranks, form).sum(std::span<TestType>(values));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const TestType v = values[i];
        ok = ok && (i == 0     ? v == Limits::infinity()
                    : i == 50  ? std::isnan(v)
                    : i == 100 ? v == -Limits::infinity()
                    : i == 7   ? v == P * Limits::denorm_min()
                               : v == P);
      }
    }
    return ok;
  });
}

TEMPLATE_TEST_CASE("a lane rides along and changes no value", "", float, double) {
  constexpr std::size_t margin = PairwiseSum<TestType>::kMargin;
  for (const std::size_t n : {0u, 1u, 31u, 1001u, 21552u}) {
    INFO(n << " elements");
    for_ranks([n](auto& ranks, int P) {
      if (!std::has_single_bit(static_cast<unsigned>(P))) return true;
      bool ok = true;
      for (const PairwiseForm form : kForms) {
        std::vector<TestType> memory(margin + n + margin);
        const std::span<TestType> values(memory.data() + margin, n);
        for (std::size_t i = 0; i < n; ++i) values[i] = value<TestType>(ranks.rank(), i);
        LaneWords lane{value<double>(ranks.rank(), 99),
                       (std::int64_t{1} << 40) + ranks.rank(),
                       std::uint64_t{1} << (8 * ranks.rank() + 3)};
        PairwiseSum<TestType>(ranks, form).sum(values, lane);
        for (std::size_t i = 0; i < n; ++i)
          ok = ok && values[i] == tree<TestType>(0, P, i);
        std::uint64_t flags = 0;
        for (int rank = 0; rank < P; ++rank) flags |= std::uint64_t{1} << (8 * rank + 3);
        ok = ok && lane.loss == tree<double>(0, P, 99) && lane.flags == flags &&
             lane.count == P * (std::int64_t{1} << 40) + P * (P - 1) / 2;
      }
      return ok;
    });
  }
}

TEST_CASE("ten thousand sums of changing lengths") {
  const auto world = kan::parallel::make_communicator();
  PairwiseSum<float> pairwise(*world);
  const int P = world->size(), calls = 10000;
  std::vector<float> values;
  bool ok = true;
  for (int call = 0; call < calls; ++call) {
    values.assign(static_cast<std::size_t>(call * 37 % 5000),
                  static_cast<float>(world->rank() + call));
    pairwise.sum(std::span<float>(values));
    const auto expected = static_cast<float>(P * call + P * (P - 1) / 2);
    for (const float v : values) ok = ok && v == expected;
  }
  REQUIRE(on_all(*world, ok));
}

TEST_CASE("messages: as many and as long as the form says") {
  const auto world = kan::parallel::make_communicator();
  const int P = world->size();
  int rounds = 0;
  while ((2 << rounds) <= P) ++rounds;
  const bool power = (1 << rounds) == P;
  if (!power) return;
  std::vector<double> values(1024 * 16, 1);
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(double));
  for (const PairwiseForm form : {PairwiseForm::doubling, PairwiseForm::halving}) {
    world->reset_statistics();
    PairwiseSum<double>(*world, form).sum(std::span<double>(values));
    const auto sent = world->statistics();
    const bool halves = form == PairwiseForm::halving;
    const std::int64_t calls = halves ? 2 * rounds : rounds;
    const std::int64_t expected = halves ? 2 * bytes * (P - 1) / P : rounds * bytes;
    REQUIRE(on_all(*world, sent.calls == calls && sent.bytes == expected));
  }
  PairwiseSum<double> automatic(*world);
  CHECK_FALSE(automatic.halves(1000));
  CHECK(automatic.halves(100000));
}

}  // namespace
