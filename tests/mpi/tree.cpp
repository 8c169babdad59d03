// The fixed tree over leaves: for every number of ranks the result must have the bits
// that one process gets from the definition, sum(a, 2c) = sum(a, c) + sum(a + c, c).
// Smaller numbers of ranks than the launch has are made by splitting.
#include "parallel/tree.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "kan/error.hpp"
#include "mpi/agree.hpp"

namespace {

using kan::parallel::LaneIn;
using kan::parallel::LaneOut;
using kan::parallel::TreeReducer;

/// Element i of leaf s: mixed signs and sizes, so that the order of additions shows.
template <class T>
T leaf_value(std::int64_t s, std::int64_t i) {
  std::uint64_t bits = static_cast<std::uint64_t>(s * 1000003 + i) * 0x9e3779b97f4a7c15u;
  bits ^= bits >> 29;
  bits *= 0xbf58476d1ce4e5b9u;
  const double mantissa = static_cast<double>(bits >> 11) / std::exp2(53) - 0.5;
  return static_cast<T>(mantissa * std::exp2(static_cast<int>(bits % 13) - 6));
}

/// The definition.
template <class T>
T tree_sum(std::int64_t first, std::int64_t count, std::int64_t i) {
  if (count == 1) return leaf_value<T>(first, i);
  const T left = tree_sum<T>(first, count / 2, i);
  const T right = tree_sum<T>(first + count / 2, count / 2, i);
  return left + right;
}

template <class T>
std::vector<T> definition(std::int64_t leaves, std::int64_t n) {
  std::vector<T> root;
  for (std::int64_t i = 0; i < n; ++i) root.push_back(tree_sum<T>(0, leaves, i));
  return root;
}

double leaf_loss(std::int64_t s) { return leaf_value<double>(s, 77); }
double tree_loss(std::int64_t first, std::int64_t count) {
  if (count == 1) return leaf_loss(first);
  return tree_loss(first, count / 2) + tree_loss(first + count / 2, count / 2);
}

template <class T>
struct Result {
  std::vector<T> gradient;
  LaneOut lane;
};

/// This rank's part as an engine would form it; its losses.
template <class T>
std::vector<double> fill(const TreeReducer<T>& reducer, std::int64_t n) {
  const auto host = Kokkos::create_mirror_view(reducer.partials());
  std::vector<double> losses;
  for (std::size_t j = 0; j < reducer.subtrees().size(); ++j) {
    const auto& tree = reducer.subtrees()[j];
    for (std::int64_t i = 0; i < n; ++i) {
      host(static_cast<std::int64_t>(j) * n + i) = tree_sum<T>(tree.first, tree.count, i);
    }
    losses.push_back(tree_loss(tree.first, tree.count));
  }
  Kokkos::deep_copy(reducer.partials(), host);
  return losses;
}

/// One reduction of all ranks' parts.
template <class T>
Result<T> reduced(kan::parallel::Communicator& ranks, std::int64_t leaves, std::int64_t n,
                  const LaneIn& in) {
  TreeReducer<T> reducer(ranks, n, leaves);
  const auto losses = fill(reducer, n);
  Result<T> result;
  result.lane = reducer.reduce(kan::Exec(), losses, in);
  const auto root =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), reducer.gradient());
  result.gradient.assign(root.data(), root.data() + root.size());
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// For 1, 2, ... ranks of the launch, or as many as there are leaves.
template <class T>
void check_bits(std::int64_t leaves, std::int64_t n) {
  const auto world = kan::parallel::make_communicator();
  const auto expected = definition<T>(leaves, n);
  for (int P = 1; P <= world->size() && P <= leaves; ++P) {
    const auto ranks = world->split(world->rank() < P ? 0 : -1, world->rank());
    bool ok = true;
    if (ranks != nullptr) {
      const auto result = reduced<T>(*ranks, leaves, n, {});
      ok = same_bits(result.gradient, expected) &&
           result.lane.loss_sum == tree_loss(0, leaves);
    }
    INFO(leaves << " leaves, " << n << " elements, " << P << " ranks");
    REQUIRE(on_all(*world, ok));
  }
}

// On both sides of the lengths from which vectors are halved (P a power of two) or
// added in segments (other P): 16 kB, and 64 kB of all ranks.
TEMPLATE_TEST_CASE("the root has the same bits for every number of ranks", "", float,
                   double) {
  for (const std::int64_t n : {0, 1, 17, 1001, 2698, 21542}) check_bits<TestType>(8, n);
  for (const std::int64_t n : {0, 1, 33, 2698}) check_bits<TestType>(64, n);
  for (const std::int64_t n : {0, 1, 129, 2698}) check_bits<TestType>(512, n);
}

TEMPLATE_TEST_CASE("long gradients, added by threads", "", float, double) {
  check_bits<TestType>(8, 300001);
}

TEMPLATE_TEST_CASE("a reducer is used many times", "", float, double) {
  const auto world = kan::parallel::make_communicator();
  for (const std::int64_t n : {37, 21542}) {
    TreeReducer<TestType> reducer(*world, n, 16);
    const auto expected = definition<TestType>(16, n);
    bool ok = true;
    for (int step = 0; step < 5; ++step) {
      const auto losses = fill(reducer, n);
      const auto lane = reducer.reduce(kan::Exec(), losses, {});
      const auto root =
          Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), reducer.gradient());
      ok = ok && lane.loss_sum == tree_loss(0, 16) &&
           same_bits({root.data(), root.data() + root.size()}, expected);
    }
    REQUIRE(on_all(*world, ok));
  }
}

TEST_CASE("the data would show another order of additions") {
  const auto expected = definition<float>(64, 1001);
  int different = 0;
  for (std::int64_t i = 0; i < 1001; ++i) {
    float sum = 0;
    for (std::int64_t s = 0; s < 64; ++s) sum += leaf_value<float>(s, i);
    different += sum != expected[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  CHECK(different > 500);
}

// Counts are whole numbers whatever the precision of the gradient.
TEMPLATE_TEST_CASE("counts and flags of any rank reach all", "", float, double) {
  const auto world = kan::parallel::make_communicator();
  const int P = world->size(), last = P - 1;
  LaneIn in;
  in.nonfinite = (std::int64_t{1} << 30) + world->rank() + 1;
  in.stop.signal_checkpoint = world->rank() == last;
  in.stop.walltime = world->rank() == last;
  kan::parallel::StopFlags expected;
  expected.signal_checkpoint = true;
  expected.walltime = last == 0;  // only rank 0 has the clock
  const std::int64_t count = P * (std::int64_t{1} << 30) + P * (P + 1) / 2;
  for (const std::int64_t n : {0, 10, 5001, 40000}) {
    const auto lane = reduced<TestType>(*world, 8, n, in).lane;
    REQUIRE(on_all(*world, lane.nonfinite == count && lane.stop == expected));
  }
}

TEST_CASE("non-finite losses are counted and left out; non-finite gradients arrive") {
  const auto world = kan::parallel::make_communicator();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t n : {3, 5001, 40000}) {
    TreeReducer<float> reducer(*world, n, 8);
    Kokkos::deep_copy(reducer.partials(), world->rank() == 0 ? infinity : 1.0f);
    std::vector<double> losses(reducer.subtrees().size(), 1);
    if (world->rank() == 0) losses[0] = std::numeric_limits<double>::quiet_NaN();
    const std::int64_t good =
        static_cast<std::int64_t>(losses.size()) - (world->rank() == 0 ? 1 : 0);
    double expected = static_cast<double>(good);
    world->allreduce_sum(std::span(&expected, 1));
    const LaneOut lane = reducer.reduce(kan::Exec(), losses, {});
    const auto root =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), reducer.gradient());
    REQUIRE(on_all(*world, lane.nonfinite == 1 && lane.loss_sum == expected &&
                               std::isinf(root(0)) && std::isinf(root(n - 1))));
  }
}

TEST_CASE("few messages a step, none for one rank, each of what must travel") {
  const auto world = kan::parallel::make_communicator();
  const int P = world->size();
  int rounds = 0;
  while ((2 << rounds) <= P) ++rounds;
  const bool power = (1 << rounds) == P;
  for (const std::int64_t n : {2726, 40000}) {
    TreeReducer<float> reducer(*world, n, 8);
    const std::vector<double> losses(reducer.subtrees().size(), 1);
    world->reset_statistics();
    reducer.reduce(kan::Exec(), losses, {});
    const auto sent = world->statistics();
    const std::int64_t calls = P == 1  ? 0
                               : power ? (n > 4096 ? 2 : 1) * rounds
                                       : (n > 4096 ? 2 : 1);
    bool ok = sent.calls == calls;
    if (power) {
      // Lanes of 24 bytes ride in the messages that are added; halves are cut at
      // multiples of 16 elements.
      const std::int64_t values = n > 4096 ? 2 * n * (P - 1) / P : rounds * n;
      ok = ok && std::abs(sent.bytes - 4 * values - 24 * rounds) <= 2 * rounds * 64;
    }
    REQUIRE(on_all(*world, ok));
  }
}

TEST_CASE("more ranks than leaves are error 2") {
  const auto world = kan::parallel::make_communicator();
  CHECK_THROWS_AS(TreeReducer<float>(*world, 10, 3), kan::Error);  // no power of two
  if (world->size() < 2) return;
  try {
    TreeReducer<float>(*world, 10, 1);
    FAIL("more ranks than leaves were accepted");
  } catch (const kan::Error& error) {
    CHECK(error.code() == kan::Code::usage);
  }
}

}  // namespace
