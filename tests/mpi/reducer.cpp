// The gradient reducer: sums against serial ones, the lane against what ranks put in, and
// the messages of a step (none for one rank), for both algorithms and message layouts.
#include "parallel/reducer.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "kan/shape.hpp"
#include "mpi/agree.hpp"

namespace {

using kan::parallel::Algorithm;
using kan::parallel::GradientReducer;
using kan::parallel::LaneIn;
using kan::parallel::LaneOut;

/// Some value of either sign and any size within 2^-8 ... 2^8; exact in double, so that
/// it does not depend on how the compiler contracts the arithmetic around it.
double value(int rank, std::int64_t i) {
  const std::int64_t mixed = (i * 7919 + rank * 104729 + 1) * 31337 % 1048583;
  return std::ldexp(static_cast<double>(mixed - 524291),
                    static_cast<int>(mixed % 17) - 28);
}

template <class T>
void fill(const GradientReducer<T>& reducer, int rank) {
  const auto gradient = reducer.gradient();
  const auto host = Kokkos::create_mirror_view(gradient);
  for (std::size_t i = 0; i < host.size(); ++i) {
    host(i) = static_cast<T>(value(rank, static_cast<std::int64_t>(i)));
  }
  Kokkos::deep_copy(gradient, host);
}

template <class T>
std::vector<T> result(const GradientReducer<T>& reducer) {
  const auto host =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), reducer.gradient());
  return std::vector<T>(host.data(), host.data() + host.size());
}

/// A reducer of n parameters, and how it adds.
struct Variant {
  Algorithm algorithm;
  bool pieces;
  std::vector<std::int64_t> messages(std::int64_t n) const {
    if (!pieces) return {};
    return {n / 3, 0, n - n / 3};
  }
};
constexpr Variant kVariants[] = {{Algorithm::automatic, false},
                                 {Algorithm::library, false},
                                 {Algorithm::tree, true},
                                 {Algorithm::library, true}};

TEMPLATE_TEST_CASE("gradients are summed over ranks, the same bits on all", "", float,
                   double) {
  const auto all = kan::parallel::make_communicator();
  for (const std::int64_t n : {0, 1, 2726, 21542}) {
    for (const Variant& variant : kVariants) {
      GradientReducer<TestType> reducer(*all, n, variant.algorithm, variant.messages(n));
      fill(reducer, all->rank());
      reducer.reduce(kan::Exec(), {});
      const auto sum = result(reducer);
      bool ok = static_cast<std::int64_t>(sum.size()) == n;
      for (std::int64_t i = 0; i < n; ++i) {
        double exact = 0, size = 0;
        for (int r = 0; r < all->size(); ++r) {
          const double one = static_cast<TestType>(value(r, i));
          exact += one;
          size += std::abs(one);
        }
        const double bound =
            all->size() * std::numeric_limits<TestType>::epsilon() * size;
        ok = ok && std::abs(sum[static_cast<std::size_t>(i)] - exact) <= bound;
      }
      REQUIRE(on_all(*all, ok));
      REQUIRE(same_on_all(*all, std::span<const TestType>(sum)));
    }
  }
}

TEMPLATE_TEST_CASE("the lane tells every rank the same", "", float, double) {
  const auto all = kan::parallel::make_communicator();
  const int P = all->size(), last = P - 1;
  for (const Variant& variant : kVariants) {
    GradientReducer<TestType> reducer(*all, 100, variant.algorithm,
                                      variant.messages(100));
    fill(reducer, all->rank());
    LaneIn in;
    in.loss_sum = 0.1 * (all->rank() + 1);
    in.nonfinite = 1000003;
    in.stop.signal_stop = all->rank() == last;
    in.stop.walltime = true;
    const LaneOut out = reducer.reduce(kan::Exec(), in);
    const double expected = 0.1 * P * (P + 1) / 2;
    bool ok = std::abs(out.loss_sum - expected) < 1e-9 * expected &&
              out.nonfinite == 1000003LL * P &&
              out.stop == kan::parallel::StopFlags{true, false, false, false, true};
    REQUIRE(on_all(*all, ok));
    const LaneOut quiet = reducer.reduce(kan::Exec(), {});
    ok = quiet.loss_sum == 0 && quiet.nonfinite == 0 &&
         quiet.stop == kan::parallel::StopFlags{};
    REQUIRE(on_all(*all, ok));
  }
}

TEMPLATE_TEST_CASE("a not-a-number on one rank is counted and stays out of the lane", "",
                   float, double) {
  const auto all = kan::parallel::make_communicator();
  const int last = all->size() - 1;
  for (const Variant& variant : kVariants) {
    GradientReducer<TestType> reducer(*all, 5, variant.algorithm, variant.messages(5));
    fill(reducer, all->rank());
    LaneIn in;
    in.loss_sum = 2;
    in.stop.output_now = true;
    if (all->rank() == last) {
      Kokkos::deep_copy(reducer.gradient(), std::numeric_limits<TestType>::quiet_NaN());
      in.loss_sum = std::numeric_limits<double>::quiet_NaN();
    }
    const LaneOut out = reducer.reduce(kan::Exec(), in);
    const auto sum = result(reducer);
    REQUIRE(on_all(*all, std::isnan(sum[0]) && out.loss_sum == 2.0 * last &&
                             out.nonfinite == 1 && out.stop.output_now &&
                             !out.stop.signal_stop));
  }
}

TEST_CASE("messages of a step: one to the library, one a round or piece, none alone") {
  const auto all = kan::parallel::make_communicator();
  const int P = all->size();
  const std::int64_t bytes = 4 * (900 + kan::parallel::kLaneSlots);
  const auto sent = [&](Algorithm algorithm, const std::vector<std::int64_t>& messages) {
    GradientReducer<float> reducer(*all, 900, algorithm, messages);
    all->reset_statistics();
    for (int step = 0; step < 5; ++step) reducer.reduce(kan::Exec(), {});
    return all->statistics();
  };
  const std::int64_t steps = P > 1 ? 5 : 0;
  const auto library = sent(Algorithm::library, {});
  const auto pieces = sent(Algorithm::library, {600, 300});
  const auto tree = sent(Algorithm::tree, {});
  bool ok = library.calls == steps && library.bytes == steps * bytes &&
            pieces.calls == 3 * steps && pieces.bytes == steps * bytes;
  if ((P & (P - 1)) == 0) {
    int rounds = 0;
    while ((2 << rounds) <= P) ++rounds;
    ok = ok && tree.calls == steps * rounds && tree.bytes == steps * rounds * bytes;
  }
  REQUIRE(on_all(*all, ok));
}

TEST_CASE("automatic is the tree here; pieces must make up the gradient") {
  const auto all = kan::parallel::make_communicator();
  CHECK(GradientReducer<float>(*all, 10).algorithm() == Algorithm::tree);
  CHECK(GradientReducer<float>(*all, 10, Algorithm::library).algorithm() ==
        Algorithm::library);
  CHECK_THROWS(GradientReducer<float>(*all, 10, Algorithm::tree, {4, 5}));
  kan::NetworkOptions options;
  options.widths = {3, 4, 2};
  options.base = {kan::Base::silu, kan::Base::none};
  options.spline_scale = kan::SplineScale::trained;
  const kan::Shape shape(options);
  CHECK(shape.tensors() == std::vector<std::int64_t>{96, 12, 12, 64, 8});
  CHECK_NOTHROW(
      GradientReducer<float>(*all, shape.parameters(), Algorithm::tree, shape.tensors()));
}

TEST_CASE("epoch counters are exact to 2^53") {
  const auto all = kan::parallel::make_communicator();
  GradientReducer<float> reducer(*all, 1);
  const double large = std::exp2(49) + 1;
  std::vector<double> counters{large, static_cast<double>(all->rank()), 0};
  reducer.reduce_sums(counters);
  const int P = all->size();
  REQUIRE(on_all(*all, counters == std::vector<double>{P * large, P * (P - 1) / 2.0, 0}));
}

}  // namespace
