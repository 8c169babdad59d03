// Rows from HDF5: shapes and types, joined datasets, row ranges, sets of their own, the
// shipped data, and every error with file, dataset, row and column.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "io/dataset/dataset.hpp"
#include "io/hdf5.hpp"
#include "support/source_file.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using kan::test::error_of;
using kan::test::Scratch;

namespace {

const std::string kData = kan::test::source_file("inputs/data") + "/";
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

DataOptions of(const std::string& file, std::vector<std::string> inputs,
               std::vector<std::string> targets) {
  DataOptions options;
  options.source = "hdf5";
  options.file = file;
  options.inputs = std::move(inputs);
  options.targets = std::move(targets);
  return options;
}

/// 6 rows: X (6, 2) = 0..11, y (6), t (6, 1) uint8, s scalar, cube (6, 2, 2), names,
/// wide.
std::string example(const Scratch& scratch) {
  const std::string path = scratch.file("example.h5");
  auto file = Hdf5File::create(path);
  std::vector<float> x(12);
  std::iota(x.begin(), x.end(), 0.0f);
  file.write<float>("train/X", x, {6, 2});
  file.write<double>("train/y", {10, 11, 12, 13, 14, 15}, {6});
  file.write<std::uint8_t>("train/t", {0, 1, 2, 0, 1, 2}, {6, 1});
  file.write<double>("short", {1, 2, 3}, {3});
  file.write<double>("scalar", {1}, {});
  file.write<double>("cube", std::vector<double>(24), {6, 2, 2});
  file.write<double>("empty", {}, {0, 2});
  file.write<double>("holes", {0, 1, kNan, 3, 4, 5, 6, 7, 8, 9, HUGE_VAL, 11}, {6, 2});
  file.write<double>("labels", {0, 1, 2, 1.5, 0, 0}, {6});
  file.write<std::int64_t>("labels3", {0, 1, 2, 0, 3, 0}, {6});
  file.write_strings("names", {"a", "b", "c", "d", "e", "f"});
  file.close();
  return path;
}

}  // namespace

TEST_CASE("columns from one or more datasets, of any numeric type") {
  const Scratch scratch;
  const std::string path = example(scratch);
  Data data = load(of(path, {"train/X"}, {"train/y"}), {.inputs = 2, .targets = 1});
  CHECK(data.train.rows == 6);
  CHECK(data.train.x == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(data.train.y == std::vector<double>{10, 11, 12, 13, 14, 15});
  CHECK(data.train.row_id == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  CHECK(data.train.input_names == std::vector<std::string>{"train/X[0]", "train/X[1]"});
  CHECK(data.train.target_names == std::vector<std::string>{"train/y"});

  data = load(of(path, {"/train/t", "train/X", "train/y"}, {"train/X"}),
              {.inputs = 4, .targets = 2});
  CHECK(data.train.x[4] == 1);
  CHECK(data.train.x[5] == 2);
  CHECK(data.train.x[6] == 3);
  CHECK(data.train.x[7] == 11);
  CHECK(data.train.y[3] == 3);
}

TEST_CASE("row ranges are half-open and keep row ids") {
  const Scratch scratch;
  const std::string path = example(scratch);
  DataOptions options = of(path, {"train/X"}, {"train/y"});
  const DataShape shape{.inputs = 2, .targets = 1};
  options.row_range = parse_row_range("2:4");
  Data data = load(options, shape);
  CHECK(data.train.row_id == std::vector<std::int64_t>{2, 3});
  CHECK(data.train.x == std::vector<double>{4, 5, 6, 7});
  CHECK(data.train.y == std::vector<double>{12, 13});
  options.row_range = parse_row_range("5:");
  CHECK(load(options, shape).train.y == std::vector<double>{15});
  for (const char* outside : {"2:7", "6:", "9:12"}) {
    options.row_range = parse_row_range(outside);
    const auto error = error_of([&] { load(options, shape); });
    CHECK(error.code == Code::data);
    CHECK(error.has(path + ": data/row_range "));
    CHECK(error.has("is not inside the rows 0:6"));
  }
}

TEST_CASE("validation and test from datasets of their own") {
  const Scratch scratch;
  const std::string path = example(scratch);
  const std::string other = scratch.file("other.h5");
  auto file = Hdf5File::create(other);
  file.write<double>("train/X", {100, 200}, {1, 2});
  file.write<double>("train/y", {300}, {1});
  file.close();
  DataOptions options = of(path, {"train/X"}, {"train/y"});
  options.row_range = {0, 3};
  options.validation.file = other;
  options.test.inputs = {"holes"};
  options.test.targets = {"train/t"};
  options.nonfinite = Nonfinite::drop;
  const Data data = load(options, {.inputs = 2, .targets = 1});
  CHECK(data.train.rows == 3);
  CHECK(data.validation.x == std::vector<double>{100, 200});
  CHECK(data.validation.y == std::vector<double>{300});
  CHECK(data.test.rows == 4);
  CHECK(data.test.row_id == std::vector<std::int64_t>{0, 2, 3, 4});
  CHECK(data.test.y == std::vector<double>{0, 2, 0, 1});
  CHECK(data.dropped == 2);

  options.test.fraction = 0.5;
  CHECK(error_of([&] {
          load(options, {.inputs = 2, .targets = 1});
        }).has("data/test: a fraction"));
  options.test = {};
  options.test.inputs = {"test/X"};
  CHECK(error_of([&] {
          load(options, {.inputs = 2, .targets = 1});
        }).has("example.h5: has no dataset 'test/X'"));
}

TEST_CASE("errors name the file and the dataset") {
  const Scratch scratch;
  const std::string path = example(scratch);
  const auto check = [&](std::vector<std::string> inputs,
                         std::vector<std::string> targets, const std::string& words,
                         Code code = Code::data,
                         DataShape shape = {.inputs = 2, .targets = 1}) {
    const auto error = error_of([&] { load(of(path, inputs, targets), shape); });
    INFO(error.message);
    CHECK(error.code == code);
    CHECK(error.has(path));
    CHECK(error.has(words));
  };
  check({"train/x"}, {"train/y"},
        "has no dataset 'train/x'; the datasets there are: /cube");
  check({"train"}, {"train/y"}, "'train' is a group");
  check({"cube"}, {"train/y"},
        "dataset 'cube' has shape (6, 2, 2); rows by columns are needed");
  check({"scalar"}, {"train/y"}, "dataset 'scalar' has shape ()");
  check({"train/X"}, {"short"}, "'train/X' has 6 rows, 'short' has 3");
  check({"train/X"}, {"names"}, "'names' does not hold numbers");
  check({"train/y"}, {"train/y"}, "data/inputs are 1 columns, the network takes 2");
  check({"train/X"}, {"train/X"}, "data/targets are 2 columns, the network gives 1");
  check({"empty"}, {"empty"}, "has no rows", Code::data, {.inputs = 2, .targets = 2});
  check({"train/X"}, {"train/X"}, "class labels are one", Code::data,
        {.inputs = 2, .targets = 1, .classes = 3});
  check({"holes"}, {"train/y"},
        "dataset 'holes' row 1 column 0 is missing or not a number (nan)");
  check({"train/y"}, {"holes"}, "dataset 'holes' row 1 column 0", Code::data,
        {.inputs = 1, .targets = 2});
  check({"train/X"}, {"labels"},
        "dataset 'labels' row 3 column 0 is 1.5; class labels are whole", Code::data,
        {.inputs = 2, .targets = 1, .classes = 3});
  check({"train/X"}, {"labels3"},
        "dataset 'labels3' row 4 column 0 is 3; class labels go from 0", Code::data,
        {.inputs = 2, .targets = 1, .classes = 3});
  check({}, {"train/y"}, "data/inputs: missing", Code::usage);
  check({"train/X"}, {}, "data/targets: missing", Code::usage);

  DataOptions options = of(path, {"holes"}, {"train/y"});
  options.row_range = {3, 6};
  auto error = error_of([&] { load(options, {.inputs = 2, .targets = 1}); });
  CHECK(error.has("dataset 'holes' row 5 column 0 is infinite"));
  options = of("", {"x"}, {"y"});
  error = error_of([&] { load(options, {.inputs = 2, .targets = 1}); });
  CHECK(error.code == Code::usage);
  CHECK(error.has("data/file: missing"));
  options = of(scratch.file("none.h5"), {"x"}, {"y"});
  error = error_of([&] { load(options, {.inputs = 2, .targets = 1}); });
  CHECK(error.code == Code::data);
  CHECK(error.has("none.h5: no such file"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 100);
  error = error_of(
      [&] { load(of(path, {"train/X"}, {"train/y"}), {.inputs = 2, .targets = 1}); });
  CHECK(error.code == Code::data);
  CHECK(error.has("cut short"));
}

TEST_CASE("more bytes than may be held on every rank are refused before they are read") {
  const Scratch scratch;
  const std::string path = scratch.file("huge.h5");
  auto file = Hdf5File::create(path);
  // Never written: a few kilobytes on disk.
  file.create_dataset<float>("x", {std::int64_t{1} << 36, 16}, {.fletcher32 = true});
  file.create_dataset<float>("y", {std::int64_t{1} << 36}, {.fletcher32 = true});
  file.close();
  DataOptions options = of(path, {"x"}, {"y"});
  const DataShape shape{.inputs = 16, .targets = 1};
  const auto error = error_of([&] { load(options, shape); });
  CHECK(error.code == Code::device);
  CHECK(error.has("data/replicate_below"));
  options.row_range = {1000, 2000};
  CHECK(load(options, shape).train.rows == 1000);
}

TEST_CASE("shipped digits: 10 classes, constant pixels become 0") {
  DataOptions options = of(kData + "digits.h5", {"train/X"}, {"train/y"});
  options.test.inputs = {"test/X"};
  options.test.targets = {"test/y"};
  options.scale_inputs = ScalingKind::minmax;
  const Data data = load(options, {.inputs = 64, .targets = 1, .classes = 10});
  CHECK(data.train.rows == 1437);
  CHECK(data.test.rows == 360);
  for (std::int64_t r = 0; r < data.train.rows; ++r) {
    REQUIRE(data.train.x[r * 64] == 0);  // the first pixel is never set
    for (int c = 0; c < 64; ++c) REQUIRE(std::abs(data.train.x[r * 64 + c]) <= 1);
  }
  const auto error =
      error_of([&] { load(options, {.inputs = 64, .targets = 1, .classes = 9}); });
  CHECK(error.has("class labels go from 0 to 8"));
}

TEST_CASE("shipped functions: y is the formula of X") {
  DataOptions options =
      of(kData + "functions.h5", {"sum_of_squares/train/X"}, {"sum_of_squares/train/y"});
  options.test.inputs = {"sum_of_squares/test/X"};
  options.test.targets = {"sum_of_squares/test/y"};
  const Data data = load(options, {.inputs = 2, .targets = 1});
  for (const DataSet* set : {&data.train, &data.test}) {
    REQUIRE(set->rows == 1000);
    for (std::size_t r = 0; r < 1000; ++r) {
      const double x = set->x[2 * r], y = set->x[2 * r + 1];
      REQUIRE(std::abs(set->y[r] - (x * x + y * y)) < 1e-15);
    }
  }
}
