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

/// This rank's part as an engine would form it, and the reduction.
template <class T>
Result<T> reduced(kan::parallel::Communicator& ranks, std::int64_t leaves, std::int64_t n,
                  std::size_t round_bytes, const LaneIn& in) {
  TreeReducer<T> reducer(ranks, n, leaves, round_bytes);
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

TEMPLATE_TEST_CASE("the root has the same bits for every number of ranks", "", float,
                   double) {
  const auto world = kan::parallel::make_communicator();
  for (const std::int64_t leaves : {8, 64}) {
    for (const std::int64_t n : {0, 1, 1001}) {
      const auto expected = definition<TestType>(leaves, n);
      for (int P = 1; P <= world->size(); ++P) {
        const auto ranks = world->split(world->rank() < P ? 0 : -1, world->rank());
        bool ok = true;
        for (const std::size_t round_bytes : {std::size_t{32} << 20, std::size_t{9000}}) {
          if (ranks == nullptr) continue;
          const auto result = reduced<TestType>(*ranks, leaves, n, round_bytes, {});
          ok = ok && same_bits(result.gradient, expected) &&
               result.lane.loss_sum == tree_loss(0, leaves);
        }
        INFO(leaves << " leaves, " << n << " elements, " << P << " ranks");
        REQUIRE(on_all(*world, ok));
      }
    }
  }
}

TEST_CASE("long gradients, added by threads, in one round and in several") {
  const auto world = kan::parallel::make_communicator();
  const std::int64_t n = 40000;
  const auto expected = definition<float>(8, n);
  bool ok = true;
  for (const std::size_t round_bytes : {std::size_t{32} << 20, std::size_t{1} << 20}) {
    ok =
        ok && same_bits(reduced<float>(*world, 8, n, round_bytes, {}).gradient, expected);
  }
  REQUIRE(on_all(*world, ok));
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

TEST_CASE("counts and flags of any rank reach all") {
  const auto world = kan::parallel::make_communicator();
  const int last = world->size() - 1;
  LaneIn in;
  in.nonfinite = world->rank() + 1;
  in.stop.signal_checkpoint = world->rank() == last;
  in.stop.walltime = world->rank() == last;
  const auto lane = reduced<double>(*world, 8, 10, 1 << 20, in).lane;
  kan::parallel::StopFlags expected;
  expected.signal_checkpoint = true;
  expected.walltime = last == 0;  // only rank 0 has the clock
  REQUIRE(on_all(*world,
                 lane.nonfinite == (last + 1) * (last + 2) / 2 && lane.stop == expected));
}

TEST_CASE("non-finite losses are counted and left out; non-finite gradients arrive") {
  const auto world = kan::parallel::make_communicator();
  TreeReducer<float> reducer(*world, 3, 8);
  Kokkos::deep_copy(reducer.partials(),
                    world->rank() == 0 ? std::numeric_limits<float>::infinity() : 1.0f);
  std::vector<double> losses(reducer.subtrees().size(), 1);
  if (world->rank() == 0) losses[0] = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t good =
      static_cast<std::int64_t>(losses.size()) - (world->rank() == 0 ? 1 : 0);
  double expected = static_cast<double>(good);
  world->allreduce_sum(std::span(&expected, 1));
  const LaneOut lane = reducer.reduce(kan::Exec(), losses, {});
  const auto root =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), reducer.gradient());
  REQUIRE(on_all(
      *world, lane.nonfinite == 1 && lane.loss_sum == expected && std::isinf(root(2))));
}

TEST_CASE("one message a step, none for one rank") {
  const auto world = kan::parallel::make_communicator();
  TreeReducer<float> reducer(*world, 2726, 8);
  const std::vector<double> losses(reducer.subtrees().size(), 1);
  world->reset_statistics();
  reducer.reduce(kan::Exec(), losses, {});
  const auto calls = world->statistics().calls;
  REQUIRE(on_all(*world, calls == (world->size() > 1 ? 1 : 0)));
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
