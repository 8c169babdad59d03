// Rows of functions: values, noise, determinism, splits, and every error of the deck's
// expressions and boxes.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numbers>
#include <set>

#include "io/dataset/dataset.hpp"
#include "io/dataset/split.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using kan::test::error_of;

namespace {

DataOptions reference() {
  DataOptions options;
  options.source = "function";
  options.rows = 2000;
  options.expressions = {"x^2 + y^2"};
  options.low = {-2};
  options.high = {2};
  options.noise = 0.01;
  return options;
}

const DataShape kTwoToOne{.inputs = 2, .targets = 1};

DataOptions of(const std::string& expression, std::int64_t rows = 50) {
  DataOptions options;
  options.source = "function";
  options.rows = rows;
  options.expressions = {expression};
  return options;
}

}  // namespace

TEST_CASE("the reference workload: uniform inputs, x^2 + y^2, noise of 0.01") {
  const Data data = load(reference(), kTwoToOne);
  REQUIRE(data.train.rows == 2000);
  REQUIRE(data.train.x.size() == 4000);
  CHECK(data.validation.rows == 0);
  CHECK(data.test.rows == 0);
  CHECK(data.train.input_names == std::vector<std::string>{"x", "y"});
  double mean = 0, square = 0, noise = 0, noise_square = 0;
  for (int r = 0; r < 2000; ++r) {
    const double x = data.train.x[2 * r], y = data.train.x[2 * r + 1];
    REQUIRE((x >= -2 && x < 2 && y >= -2 && y < 2));
    mean += x + y;
    square += x * x + y * y;
    const double rest = data.train.y[r] - (x * x + y * y);
    noise += rest;
    noise_square += rest * rest;
    CHECK(data.train.row_id[r] == r);
  }
  // Five standard errors.
  CHECK(std::abs(mean / 4000) < 5 * std::sqrt(4.0 / 3 / 4000));
  CHECK(std::abs(square / 4000 - 4.0 / 3) < 5 * std::sqrt(64.0 / 45 / 4000));
  CHECK(std::abs(noise / 2000) < 5 * 0.01 / std::sqrt(2000.0));
  CHECK(std::abs(noise_square / 2000 - 1e-4) < 5 * 1e-4 * std::sqrt(2.0 / 2000));
}

TEST_CASE("a row is a function of seed and row id alone") {
  DataOptions options = reference();
  const Data large = load(options, kTwoToOne);
  options.rows = 10;
  const Data small = load(options, kTwoToOne);
  for (int n = 0; n < 20; ++n) CHECK(small.train.x[n] == large.train.x[n]);
  for (int n = 0; n < 10; ++n) CHECK(small.train.y[n] == large.train.y[n]);
  CHECK(small.digest == load(options, kTwoToOne).digest);
  CHECK(small.digest.size() == 32);
  CHECK(small.digest != large.digest);
  options.seed = 2;
  const Data other = load(options, kTwoToOne);
  CHECK(other.digest != small.digest);
  for (int n = 0; n < 20; ++n) CHECK(small.train.x[n] != other.train.x[n]);
  // Noise and inputs are separate streams: without noise the inputs are the same.
  options.seed = 1;
  options.noise = 0;
  const Data exact = load(options, kTwoToOne);
  CHECK(exact.train.x == small.train.x);
  const double square = exact.train.x[6] * exact.train.x[6];
  CHECK(std::abs(exact.train.y[3] - square - exact.train.x[7] * exact.train.x[7]) <
        1e-14);
}

TEST_CASE("variables, boxes per input, several targets, constants and functions") {
  DataOptions options;
  options.source = "function";
  options.rows = 100;
  options.low = {-1, 0.5, 2, -4};
  options.high = {1, 1.5, 3, 4};
  options.expressions = {"x1 + 2*x2 + 3*x3 + 4*x4", "x - x1 + y - x2 + z - x3 + x4",
                         "exp(-x^2) * sin(pi * y) + log(z) + e", "x4 >= 0 ? 1 : 0"};
  const Data data = load(options, {.inputs = 4, .targets = 4});
  CHECK(data.train.input_names == std::vector<std::string>{"x1", "x2", "x3", "x4"});
  for (std::size_t r = 0; r < 100; ++r) {
    const double* v = &data.train.x[4 * r];
    const double* t = &data.train.y[4 * r];
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE((v[i] >= options.low[i] && v[i] < options.high[i]));
    }
    CHECK(std::abs(t[0] - (v[0] + 2 * v[1] + 3 * v[2] + 4 * v[3])) < 1e-13);
    CHECK(std::abs(t[1] - v[3]) < 1e-13);
    const double third = std::exp(-v[0] * v[0]) * std::sin(std::numbers::pi * v[1]) +
                         std::log(v[2]) + std::numbers::e;
    CHECK(std::abs(t[2] - third) < 1e-13);
    CHECK(t[3] == (v[3] >= 0 ? 1 : 0));
  }
}

TEST_CASE("a fraction is split off by (seed, row id), with exact counts") {
  DataOptions options = reference();
  options.rows = 1000;
  const Data whole = load(options, kTwoToOne);
  options.validation.fraction = 0.1;
  options.test.fraction = 0.29;  // 0.29 * 1000 rounds to just under 290
  const Data data = load(options, kTwoToOne);
  CHECK(data.validation.rows == 100);
  CHECK(data.test.rows == 290);
  CHECK(data.train.rows == 610);
  std::set<std::int64_t> ids;
  for (const DataSet* set : {&data.train, &data.validation, &data.test}) {
    REQUIRE(set->row_id.size() == static_cast<std::size_t>(set->rows));
    for (std::int64_t r = 0; r < set->rows; ++r) {
      const std::int64_t id = set->row_id[r];
      CHECK((r == 0 || set->row_id[r - 1] < id));
      ids.insert(id);
      CHECK(set->x[2 * r] == whole.train.x[2 * id]);
      CHECK(set->x[2 * r + 1] == whole.train.x[2 * id + 1]);
      CHECK(set->y[r] == whole.train.y[id]);
    }
  }
  CHECK(ids.size() == 1000);
  // The mean id of a random tenth of 0..999: five standard errors.
  double mean = 0;
  for (const std::int64_t id : data.validation.row_id)
    mean += static_cast<double>(id) / 100;
  CHECK(std::abs(mean - 499.5) < 5 * 1000 / std::sqrt(12.0 * 100));
  CHECK(load(options, kTwoToOne).test.row_id == data.test.row_id);
  options.seed = 7;
  CHECK(load(options, kTwoToOne).test.row_id != data.test.row_id);
}

TEST_CASE("which rows are split off does not depend on the order in which rows come") {
  std::vector<std::int64_t> ids, reversed;
  for (std::int64_t n = 0; n < 100; ++n) ids.push_back(3 * n);
  reversed.assign(ids.rbegin(), ids.rend());
  const Split forward = split_rows(ids, 0.2, 0.3, 5);
  const Split backward = split_rows(reversed, 0.2, 0.3, 5);
  std::set<std::int64_t> one, two;
  for (const std::int64_t n : forward.test) one.insert(ids[n]);
  for (const std::int64_t n : backward.test) two.insert(reversed[n]);
  CHECK(one.size() == 30);
  CHECK(one == two);
}

TEST_CASE("splits that cannot be") {
  DataOptions options = reference();
  const auto message = [&](double validation, double test) {
    options.validation.fraction = validation;
    options.test.fraction = test;
    const auto error = error_of([&] { load(options, kTwoToOne); });
    CHECK(error.code == Code::usage);
    return error.message;
  };
  CHECK(message(0.5, 0.5).find("leave no training rows") != std::string::npos);
  CHECK(message(1.0, 0).find("data/validation: 1 is not a fraction") !=
        std::string::npos);
  CHECK(message(0, -0.1).find("data/test: -0.1 is not a fraction") != std::string::npos);
  CHECK(message(0, std::nan("")).find("data/test") != std::string::npos);
  CHECK(message(0.0001, 0).find("is not one row") != std::string::npos);
  options.validation = {};
  options.validation.file = "x.csv";
  options.test = {};
  const auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::usage);
  CHECK(error.has("data/validation: of a function it is a fraction"));
}

TEST_CASE("expressions that do not parse name expression, position and reason") {
  const DataShape shape{.inputs = 2, .targets = 1};
  const auto check = [&](const std::string& expression, const std::string& words) {
    const auto error = error_of([&] { load(of(expression), shape); });
    INFO(error.message);
    CHECK(error.code == Code::usage);
    CHECK(error.has("data/expressions: '" + expression + "'"));
    CHECK(error.has(words));
    CHECK(error.has("x1 to x2, x, y"));
  };
  check("x +* y", "position 4: Unexpected operator");
  check("x + w", "position 5");
  check("x3", "position 1");
  check("z", "position 1");
  check("", "Expression is empty");
  check("(x + y", "Missing parenthesis");
  check("sin(x", "Missing parenthesis");
  check("foo(x)", "position 1");
  check("x = 3", "position 3: '=' assigns nothing");
  check("x, y", "gives 2 values");
  check("x + \"text\"", "No suitable overload for operator \"+\";");
  check("atan2(x)", "Too few parameters");
  check(std::string(20000, '('), "position");
  CHECK(error_of([&] { load(of("x <= y && x != 2 || x == y"), shape); }).message.empty());
}

TEST_CASE("values outside a function's domain name the row and the inputs") {
  const DataShape shape{.inputs = 1, .targets = 1};
  for (const char* expression : {"log(x)", "sqrt(x)", "1/(x-x)", "asin(3+x)"}) {
    const auto error = error_of([&] { load(of(expression), shape); });
    INFO(error.message);
    CHECK(error.code == Code::data);
    CHECK(error.has(std::string("data/expressions: '") + expression + "' in row "));
    CHECK(error.has(" (x = "));
  }
  // The row that is named is the first bad one, with its inputs.
  const Data inputs = load(of("x"), shape);
  int first = 0;
  while (inputs.train.x[first] >= 0) ++first;
  const auto error = error_of([&] { load(of("sqrt(x)"), shape); });
  CHECK(error.has("in row " + std::to_string(first) + " (x = -0."));

  DataOptions options = of("log(x)", 1000);
  options.nonfinite = Nonfinite::drop;
  const Data data = load(options, shape);
  CHECK(data.dropped + data.train.rows == 1000);
  CHECK(data.dropped > 400);
  CHECK(data.dropped < 600);
  for (std::int64_t r = 0; r < data.train.rows; ++r) {
    REQUIRE(data.train.x[r] > 0);
    REQUIRE(data.train.y[r] == std::log(data.train.x[r]));
  }
  options = of("log(-1-x*x)");
  options.nonfinite = Nonfinite::drop;
  CHECK(error_of([&] { load(options, shape); }).has("every row has a missing"));
}

TEST_CASE("options of functions that cannot be") {
  const auto check = [](auto change, const std::string& words) {
    DataOptions options = reference();
    DataShape shape = kTwoToOne;
    change(options, shape);
    const auto error = error_of([&] { load(options, shape); });
    INFO(error.message);
    CHECK(error.code == Code::usage);
    CHECK(error.has(words));
  };
  check([](auto& o, auto&) { o.source = "oracle"; },
        "'oracle' is none of function, hdf5, csv");
  check([](auto& o, auto&) { o.rows = 0; }, "data/rows");
  check([](auto& o, auto&) { o.rows = -4; }, "not -4");
  check([](auto& o, auto&) { o.expressions.clear(); },
        "data/expressions: 0 given for 1 target");
  check([](auto&, auto& s) { s.targets = 3; }, "data/expressions: 1 given for 3 targets");
  check([](auto& o, auto&) { o.noise = -1; }, "data/noise");
  check([](auto& o, auto&) { o.noise = std::nan(""); }, "data/noise");
  check([](auto& o, auto&) { o.low = {2}; }, "low must be less than high");
  check([](auto& o, auto&) { o.low = {0, 0, 0}; }, "data/low: 3 values for 2 inputs");
  check([](auto& o, auto&) { o.high = {}; }, "data/high: 0 values");
  check([](auto& o, auto&) { o.high = {1, std::nan("")}; }, "input 2 has the range");
  check([](auto& o, auto&) { o.split_column = "t"; }, "data/split_column");
  check([](auto&, auto& s) { s.classes = 2; }, "data/noise: class labels");
  check(
      [](auto& o, auto& s) {
        s.classes = 2;
        o.scale_targets = ScalingKind::standard;
      },
      "data/scale_targets");
}

TEST_CASE("class labels of a function") {
  DataOptions options = of("x > y ? 1 : 0", 100);
  const DataShape shape{.inputs = 2, .targets = 1, .classes = 2};
  const Data data = load(options, shape);
  for (int r = 0; r < 100; ++r) {
    CHECK(data.train.y[r] == (data.train.x[2 * r] > data.train.x[2 * r + 1] ? 1 : 0));
  }
  options.expressions = {"x > y ? 2 : 0"};
  auto error = error_of([&] { load(options, shape); });
  CHECK(error.code == Code::data);
  CHECK(error.has("is 2; class labels go from 0 to 1"));
  options.expressions = {"x"};
  error = error_of([&] { load(options, shape); });
  CHECK(error.has("class labels are whole numbers from 0 to 1"));
  CHECK(error.has("in row 0 (x = "));
}

TEST_CASE("more rows than may be held on every rank") {
  DataOptions options = reference();
  options.rows = std::int64_t{1} << 40;
  auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::device);
  CHECK(error.has("data/replicate_below (256.0 MiB)"));
  options.rows = 1000;
  options.replicate_below = 24000;
  CHECK(load(options, kTwoToOne).train.rows == 1000);
  options.replicate_below = 23999;
  CHECK(error_of([&] { load(options, kTwoToOne); }).code == Code::device);
}

TEST_CASE("a fraction or a file, and ranges of rows, as the deck writes them") {
  SetOptions set;
  set_fraction_or_file(set, "0.25");
  CHECK((set.fraction == 0.25 && set.file.empty()));
  set_fraction_or_file(set, "test.csv");
  CHECK((set.fraction == 0 && set.file == "test.csv"));
  set_fraction_or_file(set, "0.25.csv");
  CHECK(set.file == "0.25.csv");

  const auto range = [](const std::string& text) {
    const RowRange r = parse_row_range(text);
    return std::pair(r.begin, r.end);
  };
  CHECK(range("") == std::pair<std::int64_t, std::int64_t>(0, -1));
  CHECK(range("5:10") == std::pair<std::int64_t, std::int64_t>(5, 10));
  CHECK(range(":10") == std::pair<std::int64_t, std::int64_t>(0, 10));
  CHECK(range("7:") == std::pair<std::int64_t, std::int64_t>(7, -1));
  for (const char* bad :
       {"5", "a:b", "5:5", "6:5", "-1:5", "1:-5", "1:2:3", "1.5:2", " 1:2"}) {
    INFO(bad);
    const auto error = error_of([&] { parse_row_range(bad); });
    CHECK(error.code == Code::usage);
    CHECK(error.has(std::string("data/row_range: '") + bad + "'"));
  }
}
