// The team form in the cases that its plan tells apart: chunks of rows by whole leaves
// and by parts of leaves, tiles that do not divide, fewer rows than a tile, layers with
// one input or one output, more outputs than a team has threads, mixed orders, sums of an
// edge too large for scratch, activations too wide for it. The host form is the oracle,
// and chunks must not show in the bits.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kan/engine/team_engine.hpp"
#include "support/run_engine.hpp"

using namespace kan;
using test::random_values;
using test::run_engine;

namespace {

template <class T>
struct Case {
  Network<T> network;
  std::vector<double> x, y;
};

template <class T>
Case<T> make_case(const std::vector<LayerShape>& layers, int rows, bool bent = false) {
  Case<T> c{Network<T>(Shape(layers, true), -1, 1), {}, {}};
  const Shape& shape = c.network.shape();
  const auto flat = random_values(shape.parameters(), -1, 1, 5);
  for (std::size_t k = 0; k < flat.size(); ++k) c.network.parameters()(k) = T(flat[k]);
  if (bent)
    for (int l = 0; l < shape.layers(); ++l) {
      std::vector<double> knots = c.network.knots(l).values;
      for (double& t : knots) t += 0.02 * std::sin(9 * t) / shape.layer(l).grid;
      c.network.set_knots(l, knots);
    }
  c.x = random_values(std::size_t(rows) * shape.inputs(), -1.5, 1.5, 6);
  c.y = random_values(std::size_t(rows) * shape.outputs(), -1, 1, 7);
  return c;
}

template <class T>
test::Result<T> run_team(const Case<T>& c, int leaves, std::int64_t workspace) {
  return run_engine(c.network, make_team_engine(Exec(), c.network, workspace),
                    LossKind::mse, c.x, c.y, leaves);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL, scale = 1;
  for (const double v : a) scale = std::max(scale, std::abs(v));
  for (std::size_t k = 0; k < a.size() && k < b.size(); ++k)
    worst = std::max(worst, std::abs(a[k] - b[k]) / scale);
  return std::isnan(worst) ? HUGE_VAL : worst;
}

template <class T>
void check_same_bits(const test::Result<T>& a, const test::Result<T>& b) {
  CHECK(a.loss == b.loss);
  CHECK(a.gradient == b.gradient);
  CHECK(a.input_gradient == b.input_gradient);
  CHECK(a.output == b.output);
  CHECK(a.sums.outside == b.sums.outside);
}

// Against the host form, and chunks of about 40 rows against all at once.
template <class T>
void check(const std::vector<LayerShape>& layers, int rows, int leaves) {
  const double tolerance = sizeof(T) == 8 ? 1e-11 : 2e-4;
  for (const bool bent : {false, true}) {
    const Case<T> c = make_case<T>(layers, rows, bent);
    const auto team = run_team(c, leaves, kTeamWorkspace);
    const auto host =
        run_engine(c.network, Kernels::host, LossKind::mse, c.x, c.y, leaves);
    CHECK(distance(host.output, team.output) < tolerance);
    CHECK(distance(host.gradient, team.gradient) < tolerance);
    CHECK(distance(host.input_gradient, team.input_gradient) < tolerance);
    CHECK(std::abs(host.loss - team.loss) < tolerance * (1 + host.loss));
    CHECK(host.sums.outside == team.sums.outside);
    std::int64_t numbers = 0;
    for (const LayerShape& s : layers) numbers += s.in + s.out;
    check_same_bits(team, run_team(c, leaves, 40 * numbers * std::int64_t(sizeof(T))));
  }
}

const Base kSilu = Base::silu;

}  // namespace

TEST_CASE("shapes and batches of the team form") {
  const std::vector<std::vector<LayerShape>> nets = {
      {{2, 64, 10, 3, kSilu}, {64, 1, 10, 3, kSilu}},       // the reference network
      {{1, 1, 4, 3, kSilu}},                                // one edge
      {{1, 7, 3, 1, kSilu}, {7, 1, 5, 5, Base::none}},      // one input, mixed orders
      {{5, 1, 3, 2, kSilu}, {1, 3, 4, 4, Base::identity}},  // through one number
      {{3, 131, 2, 3, kSilu}, {131, 9, 2, 3, kSilu}},       // more outputs than threads
      {{140, 8, 2, 2, kSilu}},                              // more inputs than threads
      {{2, 70, 200, 3, kSilu}, {70, 2, 3, 3, kSilu}},       // sums that do not fit
      {{2, 2000, 2, 3, kSilu}, {2000, 1, 1, 3, kSilu}}};    // activations that do not fit
  for (std::size_t n = 0; n < nets.size(); ++n)
    for (const auto& [rows, leaves] : {std::pair(3, 1), {131, 1}, {203, 4}, {5, 8}}) {
      INFO("network " << n << ", " << rows << " rows in " << leaves << " leaves");
      check<double>(nets[n], rows, leaves);
      check<float>(nets[n], rows, leaves);
    }
}

TEST_CASE("large tiles") {  // of 32 rows
  check<float>({{2, 5, 4, 3, kSilu}, {5, 2, 4, 3, kSilu}}, 8227, 4);
}

TEST_CASE("the workspace is bounded, and rows are cut as planned") {
  const std::vector<LayerShape> layers = {{2, 64, 10, 3, kSilu}, {64, 1, 10, 3, kSilu}};
  const Case<float> c = make_case<float>(layers, 1000);
  const std::int64_t row = 4 * (2 + 64 + 64 + 1);
  const Exec exec;
  const auto engine = make_team_engine(exec, c.network, 100 * row);
  const std::int64_t before = engine->workspace_bytes();
  Batch<float> batch;
  batch.inputs = test::to_view<float>(c.x, 1000, 2);
  batch.targets = test::to_view<float>(c.y, 1000, 1);
  batch.size = 1000;
  batch.leaves = batch.last_leaf = 4;
  engine->form(exec, c.network.parameters());
  engine->evaluate(exec, batch, LossKind::mse, {});
  const std::int64_t evaluated = engine->workspace_bytes();
  engine->gradient(exec, batch, LossKind::mse);
  exec.fence();
  CHECK(evaluated - before < 100 * 8);  // sums of tiles
  CHECK(engine->workspace_bytes() - evaluated == 100 * row);

  const TeamPlan<float> plan(make_plan(c.network, 1, false), kTeamWorkspace);
  CHECK(plan.teams() == 2);
  CHECK(plan.sizes(512, 2).tile == 4);
  CHECK(plan.sizes(512, 2).tiles * 2 == 128);
  CHECK(plan.sizes(1024, 4).tile == 8);
  CHECK(plan.sizes(16384, 128).tile == 16);
  CHECK(plan.sizes(16384, 128).tiles == 8);
  CHECK(plan.sizes(100, 1).part_rows == 100);
  CHECK(TeamPlan<float>(make_plan(c.network, 1, false), 103 * row)
            .sizes(1000, 4)
            .part_rows == 100);
  const auto large = plan.sizes(1 << 20, 64);
  CHECK(large.chunk_rows * row <= kTeamWorkspace);
  CHECK(large.leaves > 1);
  const auto one = plan.sizes(1 << 20, 1);
  CHECK(one.chunk_rows * row <= kTeamWorkspace);
  CHECK(one.part_rows % one.tile == 0);
  CHECK(one.leaves == 1);

  // As scripts/device_check counts them, which knows the plan too.
  const auto tile = plan.sizes(16384, 128).scratch;
  CHECK(tile.near + tile.far == 15752);
  CHECK(plan.gradient_scratch() == 16928);
}
