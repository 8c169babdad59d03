// Gradients against central differences on random shapes, orders, grids, bases and
// losses; and what must agree: host and team form, closed form and general knots, any
// number of leaves, odd batches, rows outside the grid.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "support/run_engine.hpp"

using namespace kan;
using test::random_values;
using test::run_engine;

namespace {

struct Case {
  Network<double> network;
  LossKind loss;
  std::vector<double> x, y;
};

// A small random network with per-layer grids, orders and bases; a third of the inputs
// lies outside the grid.
Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const LossKind loss = LossKind(pick(0, 2));
  const int layers = pick(1, 3);
  std::vector<LayerShape> shape;
  int in = pick(1, 20);
  for (int l = 0; l < layers; ++l) {
    int out = pick(0, 2) == 0 ? 1 : pick(1, 40);
    if (l + 1 == layers && loss == LossKind::cross_entropy) out = pick(2, 9);
    shape.push_back({in, out, pick(1, 12), pick(1, 5), Base(pick(0, 2))});
    in = out;
  }
  Case c{Network<double>(Shape(shape, pick(0, 1) == 1), -1.2, 0.9), loss, {}, {}};
  const auto flat = random_values(c.network.shape().parameters(), -1, 1, seed + 1);
  for (std::size_t k = 0; k < flat.size(); ++k) c.network.parameters()(k) = flat[k];
  const int rows = pick(1, 70);
  c.x =
      random_values(std::size_t(rows) * c.network.shape().inputs(), -1.6, 1.6, seed + 2);
  if (loss == LossKind::cross_entropy) {
    for (int r = 0; r < rows; ++r)
      c.y.push_back(pick(0, c.network.shape().outputs() - 1));
  } else {
    c.y = random_values(std::size_t(rows) * c.network.shape().outputs(), -1, 1, seed + 3);
  }
  return c;
}

// Random increasing knots instead of the equally spaced ones.
void bend_knots(const Network<double>& from, Network<double>& to, unsigned seed) {
  for (int l = 0; l < from.shape().layers(); ++l) {
    std::vector<double> knots = from.knots(l).values;
    const double step = knots[1] - knots[0];
    const auto shift = random_values(knots.size(), -0.3 * step, 0.3 * step, seed + l);
    for (std::size_t k = 0; k < knots.size(); ++k) knots[k] += shift[k];
    to.set_knots(l, knots);
  }
}

void check_finite_differences(Case& c, Kernels kernels, unsigned seed) {
  const auto r = run_engine(c.network, kernels, c.loss, c.x, c.y);
  std::mt19937 random(seed);
  const double h = 1e-6;
  for (int k = 0; k < 12; ++k) {
    const std::size_t p = random() % c.network.shape().parameters();
    double& value = c.network.parameters()(p);
    const double kept = value;
    value = kept + h;
    const double up = run_engine(c.network, kernels, c.loss, c.x, c.y).loss;
    value = kept - h;
    const double down = run_engine(c.network, kernels, c.loss, c.x, c.y).loss;
    value = kept;
    INFO("parameter " << p << " of " << c.network.shape().parameters());
    // The absolute loss has kinks: a row that crosses one within h spoils a difference.
    if (c.loss == LossKind::mae) {
      const double left = (r.loss - down) / h, right = (up - r.loss) / h;
      if (std::abs(left - right) > 1e-4 * (1 + std::abs(left))) continue;
    }
    CHECK(std::abs((up - down) / (2 * h) - r.gradient[p]) <
          2e-7 * (1 + std::abs(r.gradient[p])));
  }
  for (int k = 0; k < 6; ++k) {
    const std::size_t q = random() % c.x.size();
    const int input = int(q % c.network.shape().inputs());
    const LayerShape& s = c.network.shape().layer(0);
    // At order 1 the slope jumps at knots.
    if (s.order == 1 || c.network.shape().layers() > 1 || c.loss == LossKind::mae)
      continue;
    (void)input;
    const double kept = c.x[q];
    c.x[q] = kept + h;
    const double up = run_engine(c.network, kernels, c.loss, c.x, c.y).loss;
    c.x[q] = kept - h;
    const double down = run_engine(c.network, kernels, c.loss, c.x, c.y).loss;
    c.x[q] = kept;
    CHECK(std::abs((up - down) / (2 * h) - r.input_gradient[q]) <
          2e-6 * (1 + std::abs(r.input_gradient[q])));
  }
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t k = 0; k < a.size() && k < b.size(); ++k)
    worst = std::max(worst, std::abs(a[k] - b[k]) / (1 + std::abs(a[k])));
  return worst;
}

}  // namespace

TEST_CASE("gradients are the slopes of the loss") {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("case " << seed);
    Case c = random_case(seed);
    check_finite_differences(c, Kernels::host, seed);
    check_finite_differences(c, Kernels::team, seed);
    bend_knots(c.network, c.network, seed);
    check_finite_differences(c, Kernels::host, seed);
    check_finite_differences(c, Kernels::team, seed);
  }
}

TEST_CASE("host and team form, closed form and general knots agree") {
  for (unsigned seed = 100; seed < 200; ++seed) {
    INFO("case " << seed);
    Case c = random_case(seed);
    const auto host = run_engine(c.network, Kernels::host, c.loss, c.x, c.y);
    const auto team = run_engine(c.network, Kernels::team, c.loss, c.x, c.y);
    for (int l = 0; l < c.network.shape().layers(); ++l)
      c.network.set_knots(l, c.network.knots(l).values, true);
    const auto general = run_engine(c.network, Kernels::host, c.loss, c.x, c.y);
    for (const auto* other : {&team, &general}) {
      CHECK(distance(host.output, other->output) < 1e-11);
      CHECK(distance(host.gradient, other->gradient) < 1e-11);
      CHECK(distance(host.input_gradient, other->input_gradient) < 1e-10);
      CHECK(host.sums.correct == other->sums.correct);
      CHECK(host.sums.outside == other->sums.outside);
    }
  }
}

TEST_CASE("odd batches: 1003 rows in any number of leaves") {
  NetworkOptions options;
  options.widths = {3, 17, 2};
  options.grid = {7, 4};
  options.order = {3, 2};
  const Network<double> network(Shape(options), -1, 1);
  initialize(network, Initialization::efficient_kan, 3);
  const auto x = random_values(3 * 1003, -2, 2, 1), y = random_values(2 * 1003, -1, 1, 2);
  std::int64_t outside = 0;
  for (double v : x) outside += v < -1 || v > 1;
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    const auto one = run_engine(network, kernels, LossKind::mse, x, y, 1);
    CHECK(one.sums.outside[0] == outside);
    for (int leaves : {2, 16, 1024}) {  // more leaves than rows too: some are empty
      const auto many = run_engine(network, kernels, LossKind::mse, x, y, leaves);
      CHECK(distance(one.gradient, many.gradient) < 1e-13);
      CHECK(one.output == many.output);  // a row's value depends on that row only
      CHECK(many.sums.outside == one.sums.outside);
    }
  }
}

TEST_CASE("a row that is not a number makes the loss not a number") {
  for (Base base : {Base::silu, Base::identity, Base::none})
    for (LossKind loss : {LossKind::mse, LossKind::mae, LossKind::cross_entropy})
      for (Kernels kernels : {Kernels::host, Kernels::team}) {
        NetworkOptions options;
        options.widths = {2, 3, 2};
        options.base = {base};
        const Network<float> network(Shape(options), -1, 1);
        initialize(network, Initialization::pykan, 1);
        const std::vector<double> y = loss == LossKind::cross_entropy
                                          ? std::vector<double>{0, 1}
                                          : std::vector<double>(4);
        const auto r =
            run_engine(network, kernels, loss, {0.1, 0.2, std::nan(""), 0.3}, y);
        CHECK(std::isnan(r.loss));
      }
}
