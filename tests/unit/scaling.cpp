// Scaling of columns: closed forms, constant columns, extreme values, the inverse, and
// that only training rows count.
#include "io/dataset/scaling.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kan/random.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using kan::test::error_of;

namespace {

const std::vector<std::string> kNames{"a", "b"};

}  // namespace

TEST_CASE("none leaves the values as they are") {
  std::vector<double> values{1, 2, 3, 4};
  const Scaling scaling = fit_scaling(ScalingKind::none, values, 2, -1, 1, kNames);
  CHECK(scaling.scale == std::vector<double>{1, 1});
  CHECK(scaling.shift == std::vector<double>{0, 0});
  apply_scaling(scaling, values);
  CHECK(values == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("standard: mean 0 and population standard deviation 1") {
  std::vector<double> values{2, 100, 4, 200, 4, 300, 4, 400,
                             5, 500, 5, 600, 7, 700, 9, 800};
  const std::vector<double> before = values;
  const Scaling scaling = fit_scaling(ScalingKind::standard, values, 2, -1, 1, kNames);
  CHECK(scaling.shift == std::vector<double>{5, 450});
  CHECK(scaling.scale[0] == 2);  // the textbook example 2 4 4 4 5 5 7 9
  CHECK(std::abs(scaling.scale[1] - std::sqrt(52500.0)) < 1e-12);
  apply_scaling(scaling, values);
  CHECK(values[0] == -1.5);
  unscale(scaling, values);
  for (std::size_t n = 0; n < values.size(); ++n) {
    CHECK(std::abs(values[n] - before[n]) <= 1e-15 * std::abs(before[n]) + 1e-13);
  }
  std::vector<float> predictions{-1.5f, 0.0f};
  unscale(scaling, predictions);
  CHECK(predictions == std::vector<float>{2, 450});
}

TEST_CASE("standard keeps its digits far from zero") {
  std::vector<double> values;
  for (int n = 0; n < 10000; ++n) values.push_back(1e9 + (n % 2 == 0 ? 0.5 : -0.5));
  const Scaling scaling = fit_scaling(ScalingKind::standard, values, 1, -1, 1, {"a"});
  CHECK(scaling.shift[0] == 1e9);
  CHECK(scaling.scale[0] == 0.5);
}

TEST_CASE("minmax maps the extremes to the grid range, never outside") {
  for (const auto& [low, high] :
       {std::pair(-1.0, 1.0), std::pair(0.0, 1.0), std::pair(2.0, 7.5)}) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::vector<double> values;
      const double size = std::pow(10.0, 20 * random_uniform(seed, 9, 0) - 10);
      for (std::uint64_t n = 0; n < 50; ++n)
        values.push_back(size * random_normal(seed, 1, n));
      const Scaling scaling =
          fit_scaling(ScalingKind::minmax, values, 1, low, high, {"a"});
      apply_scaling(scaling, values);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      REQUIRE(*least >= low);
      REQUIRE(*most <= high);
      REQUIRE(std::abs(*least - low) < 1e-14 * (high - low) * 10);
      REQUIRE(std::abs(*most - high) < 1e-14 * (high - low) * 10);
    }
  }
  std::vector<double> simple{0, 0, 16, 5, 8, 10};
  const Scaling scaling = fit_scaling(ScalingKind::minmax, simple, 2, -1, 1, kNames);
  apply_scaling(scaling, simple);
  CHECK(simple == std::vector<double>{-1, -1, 1, 0, 0, 1});
}

TEST_CASE("a constant column goes to the middle") {
  std::vector<double> values{0.1, 5, 0.1, 6, 0.1, 7};
  for (const ScalingKind kind : {ScalingKind::standard, ScalingKind::minmax}) {
    std::vector<double> scaled = values;
    const Scaling scaling = fit_scaling(kind, values, 2, -1, 1, kNames);
    apply_scaling(scaling, scaled);
    CHECK(scaled[0] == 0);
    CHECK(scaled[4] == 0);
    unscale(scaling, scaled);
    CHECK(scaled[0] == 0.1);
  }
  std::vector<double> one{3};
  const Scaling scaling = fit_scaling(ScalingKind::minmax, one, 1, 2, 4, {"a"});
  apply_scaling(scaling, one);
  CHECK(one[0] == 3);
}

TEST_CASE("values too large for a scale are an error with the column's name") {
  const std::vector<double> values{1e308, 0, -1e308, 1};
  auto error =
      error_of([&] { fit_scaling(ScalingKind::standard, values, 2, -1, 1, kNames); });
  CHECK(error.code == Code::data);
  CHECK(error.has("column 'a'"));
  const Scaling scaling = fit_scaling(ScalingKind::minmax, values, 2, -1, 1, kNames);
  CHECK(scaling.scale[0] == 1e308);
  CHECK(scaling.shift[0] == 0);
}

TEST_CASE("load scales every set by the training rows, and undoes it") {
  DataOptions options;
  options.source = "function";
  options.rows = 400;
  options.expressions = {"10 + 3*x"};
  options.low = {0};
  options.high = {20};
  options.test.fraction = 0.5;
  options.validation.fraction = 0.25;
  const DataShape shape{.inputs = 1, .targets = 1, .grid_low = -2, .grid_high = 2};
  const Data raw = load(options, shape);
  options.scale_inputs = ScalingKind::minmax;
  options.scale_targets = ScalingKind::standard;
  const Data data = load(options, shape);
  CHECK(data.digest == raw.digest);
  CHECK(data.train.row_id == raw.train.row_id);

  const auto [least, most] = std::minmax_element(raw.train.x.begin(), raw.train.x.end());
  const auto [low, high] = std::minmax_element(data.train.x.begin(), data.train.x.end());
  CHECK(std::abs(*low + 2) < 1e-14);
  CHECK(std::abs(*high - 2) < 1e-14);
  double mean = 0, square = 0;
  for (const double y : data.train.y) {
    mean += y / 100;
    square += y * y / 100;
  }
  CHECK(std::abs(mean) < 1e-13);
  CHECK(std::abs(square - 1) < 1e-13);
  for (std::size_t r = 0; r < 200; ++r) {
    const double x = (raw.test.x[r] - *least) / (*most - *least) * 4 - 2;
    CHECK(std::abs(data.test.x[r] - x) < 1e-13);
  }
  std::vector<double> back = data.validation.y;
  unscale(data.target_scaling, back);
  for (std::size_t r = 0; r < 100; ++r)
    CHECK(std::abs(back[r] - raw.validation.y[r]) < 1e-12);

  // An evaluation takes the scaling of the checkpoint, whatever its rows are.
  options.rows = 10;
  options.test.fraction = options.validation.fraction = 0;
  const Data again = load(options, shape, data.input_scaling, data.target_scaling);
  CHECK(again.input_scaling.scale == data.input_scaling.scale);
  options.scale_inputs = options.scale_targets = ScalingKind::none;
  const Data plain = load(options, shape);
  for (std::size_t r = 0; r < 10; ++r) {
    CHECK(again.train.x[r] ==
          (plain.train.x[r] - data.input_scaling.shift[0]) / data.input_scaling.scale[0]);
  }
  const auto error =
      error_of([&] { load(options, shape, Scaling{}, data.target_scaling); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("scales 0 inputs and 1 targets"));
}
