// Basis values and derivatives against scipy (tests/data/bspline_basis.h5), at knots, in
// the extended parts and outside, through the same function that kernels call.
#include "kan/basis/bspline.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "io/hdf5.hpp"
#include "kan/engine/plan.hpp"
#include "kan/engine/point.hpp"
#include "support/source_file.hpp"

namespace {

using kan::io::Hdf5File;

template <class T, int K>
double worst_error(const Hdf5File& file, const std::string& group, bool general) {
  const auto knots = file.read<double>(group + "/knots");
  const auto x = file.read<double>(group + "/x");
  const auto values = file.read<double>(group + "/values");
  const auto slopes = file.read<double>(group + "/derivatives");
  const int grid = int(knots.size()) - 2 * K - 1, n = grid + K;
  kan::Network<T> network(kan::Shape({{1, 1, grid, K, kan::Base::silu}}, false), -1, 1);
  network.set_knots(0, knots, general);
  REQUIRE((general || network.knots(0).uniform));
  const kan::Plan<T> plan = kan::make_plan(network, 1, false);
  double worst = 0;
  for (std::size_t p = 0; p < x.size(); ++p) {
    // In float a point next to a knot may round onto it, where order 1 has two slopes.
    if (sizeof(T) == 4 && double(T(x[p])) != x[p] && K == 1) continue;
    T v[K + 1], d[K + 1];
    const int c =
        kan::basis_at<K, true>(T(x[p]), plan.layers[0], plan.knots.data(), 0, v, d);
    REQUIRE(c >= 0);
    REQUIRE(c < plan.layers[0].intervals);
    for (int i = 0; i < n; ++i) {
      const int j = i - c + K;
      const double value = j >= 0 && j <= K ? double(v[j]) : 0;
      const double slope = j >= 0 && j <= K ? double(d[j]) : 0;
      const double want = slopes[p * n + i], size = std::max(1.0, std::abs(want));
      worst = std::max(worst, std::abs(value - values[p * n + i]));
      worst = std::max(worst, std::abs(slope - want) / size);
    }
  }
  return worst;
}

template <class T, int K>
void check_order(double tolerance) {
  const Hdf5File file =
      Hdf5File::open(kan::test::source_file("tests/data/bspline_basis.h5"));
  const std::string order = "k" + std::to_string(K);
  for (int grid = 1; grid <= 20; ++grid) {
    const std::string group = order + "/G" + std::to_string(grid);
    if (!file.exists(group)) continue;
    INFO(group);
    CHECK(worst_error<T, K>(file, group, false) < tolerance);
    CHECK(worst_error<T, K>(file, group, true) < tolerance);
  }
  CHECK(worst_error<T, K>(file, "nonuniform/" + order, true) < tolerance);
}

}  // namespace

TEST_CASE("basis values and derivatives are those of scipy") {
  check_order<double, 1>(1e-12);
  check_order<double, 2>(1e-12);
  check_order<double, 3>(1e-12);
  check_order<double, 4>(1e-12);
  check_order<double, 5>(1e-12);
}

TEST_CASE("basis in single precision") {
  check_order<float, 1>(2e-5);
  check_order<float, 2>(2e-5);
  check_order<float, 3>(2e-5);
  check_order<float, 4>(2e-5);
  check_order<float, 5>(2e-5);
}

TEST_CASE("the polynomials of an interval are its basis functions") {
  constexpr kan::IntervalPolynomials<4> polynomials;
  for (double t : {0.0, 0.25, 0.7, 1.0}) {
    double values[5];
    kan::uniform_basis<4, false>(t, values, static_cast<double*>(nullptr));
    for (int j = 0; j < 5; ++j) {
      double sum = 0;
      for (int p = 4; p >= 0; --p) sum = sum * t + polynomials.m[j][p];
      CHECK(std::abs(sum - values[j]) < 1e-15);
    }
  }
}

TEST_CASE("a not-a-number or infinite input finds an interval that exists") {
  kan::Network<double> network(kan::Shape({{1, 1, 5, 3, kan::Base::silu}}, false), -1, 1);
  const auto plan = kan::make_plan(network, 1, false);
  for (double x : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, -1e300}) {
    double v[4], d[4];
    const int c = kan::basis_at<3, true>(x, plan.layers[0], plan.knots.data(), 0, v, d);
    CHECK(c >= 0);
    CHECK(c < plan.layers[0].intervals);
  }
}
