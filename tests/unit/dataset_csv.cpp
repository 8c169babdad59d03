// Rows from CSV: quoting, delimiters, headers, columns by name and number, splits,
// missing values, a round trip of random numbers, the shipped files, and every error with
// file:line.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/dataset/csv_reader.hpp"
#include "io/dataset/dataset.hpp"
#include "io/hdf5.hpp"
#include "kan/random.hpp"
#include "support/source_file.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using kan::test::error_of;
using kan::test::Scratch;
using Records = std::vector<std::vector<std::string>>;

namespace {

const std::string kData = kan::test::source_file("inputs/data") + "/";

Records records_of(const std::string& path) {
  CsvReader reader(path);
  std::vector<std::string_view> fields;
  Records out;
  while (reader.next(fields)) out.emplace_back(fields.begin(), fields.end());
  return out;
}

DataOptions of(const std::string& file, std::vector<std::string> inputs,
               std::vector<std::string> targets) {
  DataOptions options;
  options.source = "csv";
  options.file = file;
  options.inputs = std::move(inputs);
  options.targets = std::move(targets);
  return options;
}

const DataShape kTwoToOne{.inputs = 2, .targets = 1};

}  // namespace

TEST_CASE("records as RFC 4180 has them") {
  const Scratch scratch;
  const auto check = [&](const std::string& text, const Records& wanted) {
    INFO(text);
    CHECK(records_of(scratch.write("t.csv", text)) == wanted);
  };
  const Records simple{{"a", "b"}, {"1", "2"}};
  check("a,b\n1,2\n", simple);
  check("a,b\r\n1,2\r\n", simple);
  check("a,b\n1,2", simple);
  check(
      "\xef\xbb\xbf"
      "a,b\n1,2\n",
      simple);
  check("\n\n a , b \n  \n1,\t2\n\n", simple);
  check("a;b\n1;2\n", simple);
  check("a\tb\n1\t2\n", simple);
  check("a b\n1   2\n", simple);
  check("  a \t b  \n 1 2 \n", simple);
  check("a;b\n1,5;2,5\n", {{"a", "b"}, {"1,5", "2,5"}});
  check("a b;c\n1;2\n", {{"a b", "c"}, {"1", "2"}});
  check("long name\n1\n2\n", {{"long name"}, {"1"}, {"2"}});
  check("a,b,\n1,,2\n", {{"a", "b", ""}, {"1", "", "2"}});
  check("a\tb\n\t\n1\t2\n", {{"a", "b"}, {"", ""}, {"1", "2"}});
  check("\t1\n1\t2\n", {{"", "1"}, {"1", "2"}});
  check("\"a, \"\"b\"\"\",\"c\nd\"\n1,2\n", {{"a, \"b\"", "c\nd"}, {"1", "2"}});
  check("a, \"b\" ,\"\"\n\"1\",2,3\n", {{"a", "b", ""}, {"1", "2", "3"}});
  check("\"a b\" c\n1 \"2\"\n", {{"a b", "c"}, {"1", "2"}});
  check("a,b\"c\"\n1,2\n", {{"a", "b\"c\""}, {"1", "2"}});
}

TEST_CASE(
    "line numbers count lines of the file, quoted line breaks and blank lines too") {
  const Scratch scratch;
  CsvReader reader(scratch.write("t.csv", "\n\"a\nb\nc\",d\n\n1,2\r\n3,4"));
  std::vector<std::string_view> fields;
  std::vector<std::int64_t> lines;
  while (reader.next(fields)) lines.push_back(reader.line());
  CHECK(lines == std::vector<std::int64_t>{2, 6, 7});
}

TEST_CASE("records larger and smaller than the reading block") {
  const Scratch scratch;
  std::string text, wide;
  for (int n = 0; n < 300000; ++n) wide += "12345,";
  wide += "1";
  for (int n = 0; n < 3; ++n) text += wide + "\n1\n";
  const Records records = records_of(scratch.write("t.csv", text));
  REQUIRE(records.size() == 6);
  for (std::size_t n : {0u, 2u, 4u}) CHECK(records[n].size() == 300001);
  CHECK(records[2][299999] == "12345");
}

TEST_CASE("fields as numbers") {
  double value = 0;
  const auto number = [&](const char* text) {
    CHECK(parse_field(text, value) == Field::number);
    return value;
  };
  CHECK(number("1.5") == 1.5);
  CHECK(number("-2e-3") == -2e-3);
  CHECK(number("+7") == 7);
  CHECK(number(".5") == 0.5);
  CHECK(number("1e400") == HUGE_VAL);
  CHECK(number("-1e400") == -HUGE_VAL);
  CHECK(number("1e-400") == 0);
  CHECK(number("inf") == HUGE_VAL);
  for (const char* text : {"", "NA", "na", "N/A", "nan", "NaN", "NULL"}) {
    INFO(text);
    CHECK(parse_field(text, value) == Field::missing);
    CHECK(std::isnan(value));
  }
  for (const char* text : {"1,5", "1.5x", "abc", "-", "+-1", "++1", "1 2", "0x10", "?"}) {
    INFO(text);
    CHECK(parse_field(text, value) == Field::text);
  }
}

TEST_CASE("columns by name, by number and by what is left") {
  const Scratch scratch;
  const std::string path = scratch.write("t.csv", "a,b,2,name\n1,2,3,x\n4,5,6,y\n");
  DataOptions named = of(path, {"b", "a"}, {"3"});
  named.has_header = HasHeader::yes;  // one of the names is a number
  Data data = load(named, kTwoToOne);
  CHECK(data.train.x == std::vector<double>{2, 1, 5, 4});
  CHECK(data.train.y == std::vector<double>{3, 6});
  CHECK(data.train.input_names == std::vector<std::string>{"b", "a"});
  CHECK(data.train.row_id == std::vector<std::int64_t>{0, 1});
  // A name goes before a number: column 3 is called 2.
  named.targets = {"2"};
  CHECK(load(named, kTwoToOne).train.y == std::vector<double>{3, 6});

  const std::string plain = scratch.write("plain.csv", "1,2,3\n4,5,6\n");
  data = load(of(plain, {}, {"2"}), kTwoToOne);
  CHECK(data.train.x == std::vector<double>{1, 3, 4, 6});
  CHECK(data.train.y == std::vector<double>{2, 5});
  CHECK(data.train.input_names == std::vector<std::string>{"column 1", "column 3"});

  named.inputs = {"a", "B"};
  auto error = error_of([&] { load(named, kTwoToOne); });
  CHECK(error.code == Code::data);
  CHECK(error.has(
      "t.csv: data/inputs: there is no column 'B'; give a name or a number from 1 to "
      "4; the names are a, b, 2, name"));
  error = error_of([&] { load(of(plain, {"1", "0"}, {"2"}), kTwoToOne); });
  CHECK(error.has(
      "there is no column '0'; give a number from 1 to 3 (the file has no header)"));
  CHECK(error_of([&] {
          load(of(plain, {"1", "2"}, {"4"}), kTwoToOne);
        }).has("data/targets: there is no column '4'"));
  error = error_of([&] { load(of(plain, {}, {}), kTwoToOne); });
  CHECK(error.code == Code::usage);
  CHECK(error.has("data/targets: missing"));
  CHECK(error_of([&] {
          load(of(plain, {"1"}, {"2"}), kTwoToOne);
        }).has("data/inputs are 1 columns"));
  const std::string twice = scratch.write("twice.csv", "a,a,b\n1,2,3\n");
  CHECK(error_of([&] {
          load(of(twice, {"a", "b"}, {"2"}), kTwoToOne);
        }).has("two columns are called 'a'"));
  CHECK(load(of(twice, {"1", "2"}, {"b"}), kTwoToOne).train.x ==
        std::vector<double>{1, 2});
}

TEST_CASE("a header is found, or said") {
  const Scratch scratch;
  const std::string years = scratch.write("years.csv", "1990,1991,1992\n1,2,3\n");
  DataOptions options = of(years, {"1", "2"}, {"3"});
  CHECK(load(options, kTwoToOne).train.rows == 2);
  options.has_header = HasHeader::yes;
  CHECK(load(options, kTwoToOne).train.rows == 1);
  options.inputs = {"1990", "1992"};
  CHECK(load(options, kTwoToOne).train.x == std::vector<double>{1, 3});

  const std::string mixed = scratch.write("mixed.csv", "1,2,3,setosa\n4,5,6,virginica\n");
  options = of(mixed, {"1", "2"}, {"3"});
  const auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::data);
  CHECK(
      error.has("mixed.csv:1: some fields are numbers and some are not ('setosa'): set "
                "data/has_header"));
  options.has_header = HasHeader::no;
  CHECK(load(options, kTwoToOne).train.rows == 2);

  const std::string first_missing = scratch.write("missing.csv", "NA,,\n1,2,3\n");
  options = of(first_missing, {"1", "2"}, {"3"});
  options.nonfinite = Nonfinite::drop;
  CHECK(load(options, kTwoToOne).dropped == 1);
}

TEST_CASE("missing and non-finite values: an error with line and column, or dropped") {
  const Scratch scratch;
  const std::string path =
      scratch.write("t.csv", "a,b,y\n1,2,3\n\n4,,6\n7,8,NA\n1e999,1,1\n9,9,9\n");
  DataOptions options = of(path, {"a", "b"}, {"y"});
  const auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::data);
  CHECK(error.has("t.csv:4: column 2 'b' is missing or not a number"));
  CHECK(error.has("data/nonfinite = drop"));
  options.inputs = {"a", "1"};
  CHECK(error_of([&] {
          load(options, kTwoToOne);
        }).has("t.csv:5: column 3 'y' is missing"));
  options.row_range = {3, 5};
  CHECK(error_of([&] {
          load(options, kTwoToOne);
        }).has("t.csv:6: column 1 'a' is infinite"));
  options = of(path, {"a", "b"}, {"y"});
  options.nonfinite = Nonfinite::drop;
  const Data data = load(options, kTwoToOne);
  CHECK(data.dropped == 3);
  CHECK(data.train.row_id == std::vector<std::int64_t>{0, 4});
  CHECK(data.train.x == std::vector<double>{1, 2, 9, 9});
  CHECK(data.train.y == std::vector<double>{3, 9});
}

TEST_CASE("split column, row range, and fractions of what is left") {
  const Scratch scratch;
  std::string text = "x,z,y,part\n";
  for (int n = 0; n < 100; ++n)
    text += fmt::format("{},{},{},{}\n", n, -n, 2 * n, n % 5 == 0 ? 1 : 0);
  const std::string path = scratch.write("t.csv", text);
  DataOptions options = of(path, {}, {"y"});
  options.split_column = "part";
  options.validation.fraction = 0.25;
  const Data data = load(options, kTwoToOne);
  CHECK(data.test.rows == 20);
  CHECK(data.validation.rows == 20);
  CHECK(data.train.rows == 60);
  for (std::int64_t r = 0; r < 20; ++r) {
    CHECK(data.test.row_id[r] == 5 * r);
    CHECK(data.test.x[2 * r] == static_cast<double>(5 * r));
  }
  options.row_range = {10, 20};
  options.validation.fraction = 0;
  CHECK(load(options, kTwoToOne).train.row_id ==
        std::vector<std::int64_t>{11, 12, 13, 14, 16, 17, 18, 19});
  options.row_range = {50, 101};
  CHECK(error_of([&] { load(options, kTwoToOne); })
            .has("data/row_range 50:101 is not inside the "
                 "rows 0:100"));
  options.row_range = {};
  options.test.fraction = 0.1;
  auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::usage);
  CHECK(error.has("data/split_column, data/test"));
  options.test.fraction = 0;
  options.split_column = "y";
  options.inputs = {"x", "z"};
  error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.has("t.csv:3: column 3 'y': '2' is neither 0 (train) nor 1 (test)"));
  const std::string all_test = scratch.write("all.csv", "1,2,3,1\n4,5,6,1\n");
  options = of(all_test, {}, {"3"});
  options.split_column = "4";
  CHECK(error_of([&] { load(options, kTwoToOne); }).has("no training rows"));
}

TEST_CASE("test rows from a file of their own") {
  const Scratch scratch;
  DataOptions options =
      of(scratch.write("train.csv", "a,b,y\n1,2,3\n"), {"a", "b"}, {"y"});
  options.test.file = scratch.write("test.csv", "y;b;a\n6;5;4\n9;8;7\n");
  const Data data = load(options, kTwoToOne);
  CHECK(data.test.x == std::vector<double>{4, 5, 7, 8});
  CHECK(data.test.y == std::vector<double>{6, 9});
  options.test.inputs = {"a", "c"};
  CHECK(error_of([&] {
          load(options, kTwoToOne);
        }).has("test.csv: data/test_inputs: there is no column 'c'"));
}

TEST_CASE("a validation file may have the split column or not") {
  const Scratch scratch;
  DataOptions options =
      of(scratch.write("train.csv", "a,b,y,t\n1,2,3,0\n4,5,6,1\n"), {}, {"y"});
  options.split_column = "t";
  for (const char* text : {"a,b,y\n7,8,9\n", "a,b,y,t\n7,8,9,1\n"}) {
    options.validation.file = scratch.write("validation.csv", text);
    const Data data = load(options, kTwoToOne);
    CHECK(data.train.x == std::vector<double>{1, 2});
    CHECK(data.test.x == std::vector<double>{4, 5});
    CHECK(data.validation.x == std::vector<double>{7, 8});
  }
}

TEST_CASE("class labels") {
  const Scratch scratch;
  const DataShape shape{.inputs = 2, .targets = 1, .classes = 3};
  CHECK(load(of(scratch.write("t.csv", "1,2,0\n3,4,2\n"), {}, {"3"}), shape).train.y ==
        std::vector<double>{0, 2});
  CHECK(error_of([&] {
          load(of(scratch.write("t.csv", "1,2,0\n3,4,1.5\n"), {}, {"3"}), shape);
        }).has("t.csv:2: column 3 is 1.5; class labels are whole numbers from 0 to 2"));
  CHECK(error_of([&] {
          load(of(scratch.write("t.csv", "1,2,0\n3,4,3\n"), {}, {"3"}), shape);
        }).has("t.csv:2: column 3 is 3; class labels go from 0 to 2"));
  CHECK(error_of([&] {
          load(of(scratch.write("t.csv", "1,2,0\n3,4,-1\n"), {}, {"3"}), shape);
        }).has("t.csv:2: column 3 is -1"));
  CHECK(error_of([&] {
          load(of(scratch.write("t.csv", "1,2,0\n3,4,cat\n"), {}, {"3"}), shape);
        }).has("t.csv:2: column 3: 'cat' is not a number"));
}

TEST_CASE("bad files") {
  const Scratch scratch;
  const auto check = [&](const std::string& text, const std::string& words) {
    const std::string path = scratch.write("bad.csv", text);
    const auto error = error_of([&] { load(of(path, {"1", "2"}, {"3"}), kTwoToOne); });
    INFO(error.message);
    CHECK(error.code == Code::data);
    CHECK(error.has(path));
    CHECK(error.has(words));
    CHECK(error.message.find('\n') == std::string::npos);
  };
  check("", "bad.csv: the file is empty");
  check("\n \n\n", "holds blank lines only");
  check("\xef\xbb\xbf", "holds blank lines only");
  check("a,b,c\n", "there is a header and no row after it");
  check("a,b,c\n\n\n", "there is a header and no row after it");
  check("a,b,c\n1,2,3\n4,5\n", "bad.csv:3: the line has 2 fields, line 1 has 3");
  check("1,2,3\n4,5,6\n7,8,9,10\n", "bad.csv:3: the line has 4 fields, line 1 has 3");
  check("1,2,3\n4\n", "bad.csv:2: the line has 1 field, line 1 has 3");
  check("1,2,3\n4,five,6\n", "bad.csv:2: column 2: 'five' is not a number");
  check("1;2;3\n4;5,5;6\n",
        "bad.csv:2: column 2: '5,5' is not a number (the decimal mark");
  check("1,2,3\n4,\"5,6\n7,8,9\n", "bad.csv:2: a quote is opened and never closed");
  check("1,2,3\n4,\"5\"x,6\n", "bad.csv:2: field 2 has text after its closing quote");
  check(std::string("1,2,3\n4,\0005,6\n", 13), "bad.csv:2: holds a zero byte");
  check(
      "\xff\xfe"
      "1,2",
      "UTF-16");
  check("1,2,3\n" + std::string(std::size_t{18} << 20, '7'),
        "bad.csv:2: more than 16 MiB");
  check("1,2,3\n\"" + std::string(std::size_t{18} << 20, '\n'),
        "bad.csv:2: a quote is opened");
  std::string garbage;
  for (std::uint64_t n = 0; n < 20000; ++n)
    garbage += static_cast<char>(random_bits(1, 1, n));
  check(garbage, "bad.csv:");

  auto error = error_of([&] { load(of(scratch.path(), {"1", "2"}, {"3"}), kTwoToOne); });
  CHECK(error.code == Code::data);
  CHECK(error.has("is a directory"));
  error =
      error_of([&] { load(of(scratch.file("none.csv"), {"1", "2"}, {"3"}), kTwoToOne); });
  CHECK(error.has("none.csv: no such file"));
}

TEST_CASE("a damaged file is read or refused with its name, never anything else") {
  const Scratch scratch;
  const std::string good = "a,\"b\",y\r\n1,2,3\n+4.5,-6e-3,7\n\n\"8\", 9 ,NA\n";
  const std::string pieces = std::string("\",;\t \n\r.-+eaN1\0\xff", 17);
  int loaded = 0, refused = 0;
  for (std::uint64_t trial = 0; trial < 3000; ++trial) {
    std::string text = good;
    const std::uint64_t changes = 1 + random_integer(3, 0, trial, 4);
    for (std::uint64_t n = 0; n < changes; ++n) {
      const std::uint64_t at = random_integer(3, 1 + n, trial, text.size());
      const char piece = pieces[random_integer(3, 11 + n, trial, pieces.size())];
      switch (random_integer(3, 21 + n, trial, 3)) {
        case 0:
          text[at] = piece;
          break;
        case 1:
          text.insert(at, 1, piece);
          break;
        default:
          text.erase(at, 1 + random_integer(3, 31 + n, trial, 3));
          break;
      }
      if (text.empty()) text = "1";
    }
    DataOptions options = of(scratch.write("t.csv", text), {"1", "2"}, {"3"});
    options.nonfinite = Nonfinite::drop;
    try {
      const Data data = load(options, kTwoToOne);
      REQUIRE(data.train.rows > 0);
      for (const double value : data.train.x) REQUIRE(std::isfinite(value));
      ++loaded;
    } catch (const Error& error) {
      INFO(text);
      REQUIRE(error.code() == Code::data);
      REQUIRE(std::string(error.what()).starts_with(options.file + ":"));
      ++refused;
    }
  }
  CHECK(loaded > 300);
  CHECK(refused > 300);
}

TEST_CASE("more bytes than may be held on every rank") {
  const Scratch scratch;
  std::string text;
  for (int n = 0; n < 10000; ++n) text += "1,2,3\n";
  DataOptions options = of(scratch.write("t.csv", text), {"1", "2"}, {"3"});
  options.replicate_below = 240000;
  CHECK(load(options, kTwoToOne).train.rows == 10000);
  options.replicate_below = 239999;
  const auto error = error_of([&] { load(options, kTwoToOne); });
  CHECK(error.code == Code::device);
  CHECK(error.has("data/replicate_below"));
}

TEST_CASE("random doubles written as text come back bit by bit") {
  const Scratch scratch;
  for (const auto& [delimiter, end] : {std::pair(",", "\n"), std::pair(";", "\r\n"),
                                       std::pair("\t", "\n"), std::pair("  ", "\n")}) {
    std::string text;
    std::vector<double> x, y;
    for (std::uint64_t n = 0; x.size() < 6000; ++n) {
      double value[3];
      for (std::uint64_t c = 0; c < 3; ++c) {
        const std::uint64_t bits = random_bits(11, c, n);
        std::memcpy(&value[c], &bits, sizeof bits);
      }
      if (!std::isfinite(value[0]) || !std::isfinite(value[1]) ||
          !std::isfinite(value[2]))
        continue;
      x.insert(x.end(), value, value + 2);
      y.push_back(value[2]);
      text += fmt::format("{}{}{}{}{}{}", value[0], delimiter, value[1], delimiter,
                          value[2], end);
    }
    const Data data =
        load(of(scratch.write("t.csv", text), {"1", "2"}, {"3"}), kTwoToOne);
    CHECK(std::memcmp(data.train.x.data(), x.data(), x.size() * sizeof(double)) == 0);
    CHECK(data.train.y == y);
  }
}

TEST_CASE("shipped files, and the same rows through HDF5") {
  const Scratch scratch;
  DataOptions options = of(kData + "diabetes.csv", {}, {"progression"});
  options.split_column = "is_test";
  const Data diabetes = load(options, {.inputs = 10, .targets = 1});
  CHECK(diabetes.train.rows == 353);
  CHECK(diabetes.test.rows == 89);
  double sum = 0;
  for (const DataSet* set : {&diabetes.train, &diabetes.test}) {
    for (const double y : set->y) sum += y;
  }
  CHECK(std::abs(sum / 442 - 152.13348416289594) < 1e-10);  // the published mean

  options.file = kData + "breast_cancer.csv";
  options.targets = {"benign"};
  const Data cancer = load(options, {.inputs = 30, .targets = 1, .classes = 2});
  CHECK(cancer.train.rows == 455);
  CHECK(cancer.test.rows == 114);
  double benign = 0;
  for (const DataSet* set : {&cancer.train, &cancer.test}) {
    for (const double y : set->y) benign += y;
  }
  CHECK(benign == 357);

  const std::string path = scratch.file("same.h5");
  auto file = Hdf5File::create(path);
  file.write<double>("train/X", cancer.train.x, {455, 30});
  file.write<double>("train/y", cancer.train.y, {455});
  file.write<double>("test/X", cancer.test.x, {114, 30});
  file.write<double>("test/y", cancer.test.y, {114});
  file.close();
  DataOptions same = of(path, {"train/X"}, {"train/y"});
  same.source = "hdf5";
  same.test.inputs = {"test/X"};
  same.test.targets = {"test/y"};
  CHECK(load(same, {.inputs = 30, .targets = 1, .classes = 2}).digest == cancer.digest);
}
