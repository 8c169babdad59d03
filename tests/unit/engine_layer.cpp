// The layer engine against the tile engine: several blocks of inputs, several passes of
// rows, one output, uniform and other knots, both precisions; and who chooses it.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kan/engine/choice.hpp"
#include "support/run_engine.hpp"

namespace {

using namespace kan;
using test::random_values;
using test::run_engine;

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t k = 0; k < a.size() && k < b.size(); ++k)
    worst = std::max(worst, std::abs(a[k] - b[k]) / (1 + std::abs(a[k])));
  return worst;
}

template <class T>
void compare(std::vector<int> widths, std::vector<int> order, std::vector<int> grid,
             bool bent, int rows, int leaves, double tolerance) {
  NetworkOptions options;
  options.widths = widths;
  options.order = order;
  options.grid = grid;
  options.spline_scale = SplineScale::trained;
  Network<T> network(Shape(options), -1, 1);
  initialize(network, Initialization::efficient_kan, 5);
  for (int l = 0; bent && l < network.shape().layers(); ++l) {
    std::vector<double> knots = network.knots(l).values;
    const double step = knots[1] - knots[0];
    const auto shift = random_values(knots.size(), -0.3 * step, 0.3 * step, 9 + l);
    for (std::size_t k = 0; k < knots.size(); ++k) knots[k] += shift[k];
    network.set_knots(l, knots);
  }
  const auto x = random_values(std::size_t(rows) * widths.front(), -1.5, 1.5, 1);
  const auto y = random_values(std::size_t(rows) * widths.back(), -1, 1, 2);
  const auto tile = run_engine(network, Kernels::host, LossKind::mse, x, y, leaves);
  const auto layer =
      run_engine(network, make_engine(Exec(), network, Kernels::host, EngineKind::layer),
                 LossKind::mse, x, y, leaves);
  CHECK(distance(tile.output, layer.output) < tolerance);
  CHECK(distance(tile.gradient, layer.gradient) < tolerance);
  CHECK(distance(tile.input_gradient, layer.input_gradient) < tolerance);
  CHECK(std::abs(tile.loss - layer.loss) < tolerance * tile.loss);
  CHECK(tile.sums.outside == layer.sums.outside);
  CHECK(tile.sums.correct == layer.sums.correct);
}

}  // namespace

TEST_CASE("layer by layer, the numbers are those of tiles") {
  for (const bool bent : {false, true}) {
    INFO((bent ? "bent knots" : "uniform knots"));
    // 600 outputs: the inputs of the first layer take several blocks.
    compare<double>({40, 600, 5, 1}, {3}, {20, 5, 7}, bent, 1300, 2, 1e-11);
    compare<float>({40, 600, 5, 1}, {3}, {20, 5, 7}, bent, 1300, 1, 2e-4);
    compare<double>({3, 7, 2}, {1, 5}, {6}, bent, 130, 4, 1e-11);
    compare<double>({1, 1}, {2}, {5}, bent, 3, 8, 1e-11);  // some leaves are empty
    compare<double>({70, 1}, {4}, {90}, bent, 600, 1, 1e-11);
  }
}

TEST_CASE("who computes is settled by sizes, or measured") {
  const auto alone = parallel::make_communicator();
  const auto choose = [&](std::vector<int> widths, Kernels kernels, bool reproducible) {
    NetworkOptions options;
    options.widths = widths;
    const Network<float> network(Shape(options), -1, 1);
    return choose_engine(Exec(), network, kernels, LossKind::mse, reproducible, 256,
                         *alone);
  };
  CHECK(choose({2, 64, 1}, Kernels::automatic, false).why.empty());
  CHECK(choose({400, 400}, Kernels::team, false).why.empty());
  const EngineChoice sized = choose({400, 400}, Kernels::host, true);
  CHECK(sized.kind == EngineKind::tile);
  CHECK(!sized.why.empty());
  CHECK(choose({400, 400}, Kernels::host, false).why.find("measured") == 0);
  CHECK(engine_kind("layer/host") == EngineKind::layer);
  CHECK(engine_kind("tile/team") == EngineKind::tile);
  CHECK(engine_kind("") == EngineKind::automatic);
  NetworkOptions options;
  options.widths = {2, 3};
  const Network<float> network(Shape(options), -1, 1);
  CHECK_THROWS_AS(make_engine(Exec(), network, Kernels::team, EngineKind::layer), Error);
}
