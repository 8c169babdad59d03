// The HDF5 layer: what is written comes back, conversions, rows, checksums, listing, and
// a message with path, reason and advice for every way a file can be bad.
#include "io/hdf5.hpp"

#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <numeric>

#include "io/hdf5_rows.hpp"
#include "unit/scratch.hpp"

using kan::Code;
using kan::io::Hdf5File;
using kan::io::Hdf5Kind;
using kan::test::error_of;
using kan::test::Scratch;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <class T>
void round_trip(const Scratch& scratch, std::vector<T> values) {
  const std::string path = scratch.file("types.h5");
  auto file = Hdf5File::create(path);
  file.write<T>("a/b/values", values, {static_cast<std::int64_t>(values.size())});
  file.close();
  CHECK(Hdf5File::open(path).read<T>("/a/b/values") == values);
}

}  // namespace

TEST_CASE("every type comes back bit by bit") {
  const Scratch scratch;
  round_trip<float>(scratch, {0.0f, -1.5f, std::numeric_limits<float>::min(), 3e38f});
  round_trip<double>(scratch,
                     {0.1, -1e300, std::numeric_limits<double>::denorm_min(), 1.0 / 3});
  round_trip<std::int32_t>(scratch, {-5, 0, std::numeric_limits<std::int32_t>::max()});
  round_trip<std::int64_t>(scratch, {std::numeric_limits<std::int64_t>::min(), 7});
  round_trip<std::uint64_t>(scratch, {std::numeric_limits<std::uint64_t>::max(), 7});
  round_trip<std::int8_t>(scratch, {-128, 127});
  round_trip<std::uint8_t>(scratch, {0, 255});
  round_trip<double>(scratch, {});
}

TEST_CASE("shapes of any rank, rows, and writing in parts") {
  const Scratch scratch;
  const std::string path = scratch.file("shapes.h5");
  std::vector<double> values(2 * 3 * 4);
  std::iota(values.begin(), values.end(), 0.5);
  auto file = Hdf5File::create(path);
  file.write<double>("cube", values, {2, 3, 4});
  file.write<double>("scalar", {2.5}, {});
  file.write<double>("nothing", {}, {0, 7});
  file.write<double>("nothing_checked", {}, {0, 7}, {.fletcher32 = true});
  file.create_dataset<double>("parts", {6, 4});
  file.write_rows<double>("parts", values.data() + 8, 2, 6);
  file.write_rows<double>("parts", values.data(), 0, 2);
  file.close();

  const auto in = Hdf5File::open(path);
  CHECK(in.info("cube").shape == std::vector<std::int64_t>{2, 3, 4});
  CHECK(in.info("cube").kind == Hdf5Kind::real);
  CHECK(in.info("cube").bytes == 8);
  CHECK(in.read<double>("cube") == values);
  CHECK(in.read<double>("cube", {2, 3, 4}) == values);
  CHECK(in.read_rows<double>("cube", 1, 2) ==
        std::vector<double>(values.begin() + 12, values.end()));
  CHECK(in.read_rows<double>("cube", 1, 1).empty());
  CHECK(in.read<double>("scalar") == std::vector<double>{2.5});
  CHECK(in.info("nothing_checked").shape == std::vector<std::int64_t>{0, 7});
  CHECK(in.read<double>("nothing").empty());
  CHECK(in.read<double>("parts") == values);

  auto error = error_of([&] { in.read<double>("cube", {3, 2, 4}); });
  CHECK(error.has("'cube' has shape (2, 3, 4), expected is (3, 2, 4)"));
  error = error_of([&] { in.read_rows<double>("cube", 1, 3); });
  CHECK(error.has("has rows 0 to 1, not 1:3"));
}

TEST_CASE("numbers are converted from any stored type, and never cut silently") {
  const Scratch scratch;
  const std::string path = scratch.file("conversion.h5");
  auto file = Hdf5File::create(path);
  file.write<std::uint8_t>("bytes", {0, 16, 255}, {3});
  file.write<double>("whole", {3.0, -4.0}, {2});
  file.write<double>("half", {3.0, 2.5}, {2});
  file.write<double>("large", {1e300}, {1});
  file.write<double>("special", {std::numeric_limits<double>::infinity(), 1e-50}, {2});
  file.write<std::int64_t>("long", {(std::int64_t{1} << 53) + 1}, {1});
  file.close();
  const auto in = Hdf5File::open(path);
  CHECK(in.read<float>("bytes") == std::vector<float>{0, 16, 255});
  CHECK(in.read<std::int64_t>("whole") == std::vector<std::int64_t>{3, -4});
  CHECK(in.read<float>("special")[0] == std::numeric_limits<float>::infinity());
  CHECK(in.read<float>("special")[1] == 0.0f);
  CHECK(in.read<float>("large")[0] == std::numeric_limits<float>::infinity());
  CHECK(in.read<double>("long")[0] == 9007199254740992.0);
  CHECK(error_of([&] { in.read<std::int64_t>("half"); }).has("do not fit"));
  CHECK(error_of([&] { in.read<std::int64_t>("large"); }).has("do not fit"));
  CHECK(error_of([&] { in.read<std::int64_t>("special"); }).has("do not fit"));
  CHECK(error_of([&] { in.read<std::int8_t>("bytes"); }).has("'bytes' holds values"));
}

TEST_CASE("attributes and strings") {
  const Scratch scratch;
  const std::string path = scratch.file("attributes.h5");
  const std::string deck(300000, 'x');
  auto file = Hdf5File::create(path, Code::checkpoint);
  file.make_group("info/deep");
  file.write_attribute("/info", "name", "one");
  file.write_attribute("/info", "name", "zwei \xc3\xa4\n\"3\"");
  file.write_attribute("/info", "empty", "");
  file.write_attribute("/info", "deck", deck);
  file.write_attribute("/info", "step", std::int64_t{-9000000000});
  file.write_attribute("/info", "ranks", 4);
  file.write_attribute("/info", "elapsed", 0.1);
  file.write_attribute("/", "root", "r");
  file.write<float>("data", {1, 2}, {2});
  file.write_attribute("data", "units", "1");
  file.write_strings("names", {"a", "", "long name \xc3\xb6"});
  file.write_strings("no_names", {});
  CHECK(error_of([&] {
          file.write_attribute("nowhere", "a", 1);
        }).has("no object 'nowhere'"));
  file.close();

  const auto in = Hdf5File::open(path, Code::checkpoint);
  CHECK(in.read_string_attribute("/info", "name") == "zwei \xc3\xa4\n\"3\"");
  CHECK(in.read_string_attribute("info", "empty").empty());
  CHECK(in.read_string_attribute("info", "deck") == deck);
  CHECK(in.read_int_attribute("info", "step") == -9000000000);
  CHECK(in.read_int_attribute("info", "ranks") == 4);
  CHECK(in.read_double_attribute("info", "elapsed") == 0.1);
  CHECK(in.read_double_attribute("info", "ranks") == 4);
  CHECK(in.read_string_attribute("/", "root") == "r");
  CHECK(in.read_string_attribute("data", "units") == "1");
  CHECK(in.has_attribute("info", "step"));
  CHECK_FALSE(in.has_attribute("info", "steps"));
  CHECK_FALSE(in.has_attribute("nowhere", "steps"));
  CHECK(in.attributes("info") ==
        std::vector<std::string>{"deck", "elapsed", "empty", "name", "ranks", "step"});
  CHECK(in.read_strings("names") ==
        std::vector<std::string>{"a", "", "long name \xc3\xb6"});
  CHECK(in.read_strings("no_names").empty());

  auto error = error_of([&] { in.read_int_attribute("info", "steps"); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("'info' has no attribute 'steps'; it has: deck, elapsed"));
  CHECK(error_of([&] {
          in.read_int_attribute("info", "elapsed");
        }).has("not one whole number"));
  CHECK(
      error_of([&] { in.read_double_attribute("info", "name"); }).has("not one number"));
  CHECK(
      error_of([&] { in.read_string_attribute("info", "step"); }).has("not one string"));
  CHECK(error_of([&] { in.read_strings("data"); }).has("not a list of strings"));
  CHECK(error_of([&] { in.read<double>("names"); }).has("does not hold numbers"));
}

TEST_CASE("listing, and a missing dataset names those that exist") {
  const Scratch scratch;
  const std::string path = scratch.file("list.h5");
  auto file = Hdf5File::create(path);
  file.write<float>("train/y", {1}, {1});
  file.write<float>("train/X", {1}, {1});
  file.write<float>("top", {1}, {1});
  file.make_group("empty");
  file.close();
  const auto in = Hdf5File::open(path);
  CHECK(in.datasets() == std::vector<std::string>{"/top", "/train/X", "/train/y"});
  CHECK(in.datasets("train") == std::vector<std::string>{"/train/X", "/train/y"});
  CHECK(in.children("/") == std::vector<std::string>{"empty", "top", "train"});
  CHECK(in.exists("/train/X"));
  CHECK(in.exists("train"));
  CHECK_FALSE(in.exists("train/X/deeper"));
  CHECK_FALSE(in.exists("test/X"));
  auto error = error_of([&] { in.info("test/X"); });
  CHECK(error.code == Code::data);
  CHECK(error.has(path +
                  ": has no dataset 'test/X'; the datasets there are: /top, /train/X"));
  error = error_of([&] { in.read<double>("train"); });
  CHECK(error.has(
      "'train' is a group, not a dataset; the datasets below it are: /train/X"));
}

TEST_CASE("files that cannot be opened say why") {
  const Scratch scratch;
  auto error = error_of([&] { Hdf5File::open(scratch.file("none.h5")); });
  CHECK(error.code == Code::data);
  CHECK(error.has("none.h5: no such file"));
  CHECK(error_of([&] { Hdf5File::open(scratch.path()); }).has("is a directory"));

  const std::string path = scratch.file("bad.h5");
  write_bytes(path, "");
  CHECK(error_of([&] { Hdf5File::open(path); }).has("bad.h5: the file is empty"));
  write_bytes(path, std::string(5000, '\xa7'));
  CHECK(error_of([&] { Hdf5File::open(path); }).has("bad.h5: is not an HDF5 file"));

  auto file = Hdf5File::create(path);
  file.write<double>("values", std::vector<double>(1000, 1.0), {1000});
  file.close();
  const std::string whole = bytes_of(path);
  write_bytes(path, whole.substr(0, whole.size() / 2));
  error = error_of([&] { Hdf5File::open(path, Code::checkpoint); });
  CHECK(error.code == Code::checkpoint);
  INFO(error.message);
  CHECK(error.has("bad.h5: the HDF5 file is cut short"));

  error = error_of([&] { Hdf5File::create(scratch.file("no/folder/x.h5")); });
  CHECK(error.code == Code::output);
  CHECK(error.has("No such file or directory"));
}

TEST_CASE("any single damaged byte in checksummed values is found") {
  const Scratch scratch;
  const std::string path = scratch.file("checksum.h5");
  std::vector<double> values(3000);
  std::iota(values.begin(), values.end(), 1e6);
  for (const bool checked : {true, false}) {
    auto file = Hdf5File::create(path);
    file.write<double>("values", values, {1000, 3}, {.fletcher32 = checked});
    file.close();
    CHECK(Hdf5File::open(path).read<double>("values") == values);
    std::string bytes = bytes_of(path);
    const double wanted = values[1234];
    const std::string pattern(reinterpret_cast<const char*>(&wanted), sizeof wanted);
    const std::size_t at = bytes.find(pattern);
    REQUIRE(at != std::string::npos);
    bytes[at + 2] = static_cast<char>(bytes[at + 2] ^ 0x10);
    write_bytes(path, bytes);
    const auto error = error_of([&] { Hdf5File::open(path).read<double>("values"); });
    CHECK(error.has("'values' cannot be read") == checked);
    CHECK(error.has("hecksum") == checked);
  }
}

TEST_CASE("large checksummed datasets are cut into chunks and come back") {
  const Scratch scratch;
  const std::string path = scratch.file("chunks.h5");
  std::vector<std::int32_t> values(700 * 1001);
  std::iota(values.begin(), values.end(), 0);
  auto file = Hdf5File::create(path);
  file.write<std::int32_t>("values", values, {700, 1001}, {.fletcher32 = true});
  file.write<std::int32_t>("one_row", values, {1, 700 * 1001}, {.fletcher32 = true});
  file.close();
  const auto in = Hdf5File::open(path);
  CHECK(in.read<std::int32_t>("values") == values);
  CHECK(in.read<std::int32_t>("one_row") == values);
  CHECK(in.read_rows<std::int32_t>("values", 500, 501) ==
        std::vector<std::int32_t>(values.begin() + 500 * 1001,
                                  values.begin() + 501 * 1001));
}

TEST_CASE("same content, same bytes") {
  const Scratch scratch;
  for (const char* name : {"one.h5", "two.h5"}) {
    auto file = Hdf5File::create(scratch.file(name));
    file.write<double>("a/x", {1, 2, 3}, {3}, {.fletcher32 = true});
    file.write_attribute("a", "deck", "text");
    file.close();
    if (std::string(name) == "one.h5") sleep(1);
  }
  CHECK(bytes_of(scratch.file("one.h5")) == bytes_of(scratch.file("two.h5")));
}

TEST_CASE("a lock that another holds is named") {
  const Scratch scratch;
  const std::string path = scratch.file("locked.h5");
  auto file = Hdf5File::create(path);
  file.write<double>("x", {1}, {1});
  file.close();
  const int descriptor = open(path.c_str(), O_RDWR);
  REQUIRE(flock(descriptor, LOCK_EX | LOCK_NB) == 0);
  const auto error = error_of([&] { Hdf5File::open(path); });
  CHECK(error.has("locked.h5: the file cannot be locked"));
  CHECK(error.has("HDF5_USE_FILE_LOCKING"));
  CHECK(error.has("file system: " + kan::io::file_system(path)));
  CHECK(kan::io::file_system(path).find(" on /") != std::string::npos);
  ::close(descriptor);
  CHECK(Hdf5File::open(path).read<double>("x") == std::vector<double>{1});
}

TEST_CASE("a full disk is an error with the system's reason, and the program goes on") {
  const Scratch scratch;
  const std::string path = scratch.file("full.h5");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto error = error_of([&] {
    auto file = Hdf5File::create(path);
    file.write<double>("x", std::vector<double>(100000, 1.0), {100000});
    file.close();
  });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(error.code == Code::output);
  CHECK(error.has("full.h5: cannot write"));
  CHECK(error.has("File too large"));
  auto file = Hdf5File::create(path);
  file.write<double>("x", {1}, {1});
  file.close();
  CHECK(Hdf5File::open(path).read<double>("x") == std::vector<double>{1});
}

TEST_CASE("the error stack is silent inside and as it was outside") {
  H5E_auto2_t before = nullptr, after = nullptr;
  void* data = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &before, &data);
  error_of([] { Hdf5File::open("/nowhere/x.h5"); });
  error_of([] { Hdf5File::create("/nowhere/x.h5"); });
  H5Eget_auto2(H5E_DEFAULT, &after, &data);
  CHECK(before == after);
  CHECK(before != nullptr);
}

TEST_CASE("no identifier stays open") {
  const Scratch scratch;
  const std::string path = scratch.file("leak.h5");
  const auto open_ids = [] { return H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL); };
  const auto before = open_ids();
  {
    auto file = Hdf5File::create(path);
    file.write<double>("a/x", {1, 2}, {2}, {.fletcher32 = true});
    file.write_attribute("a", "n", 1);
    file.write_strings("s", {"a"});
    auto moved = std::move(file);
    CHECK(moved.datasets().size() == 2);
    error_of([&] { moved.read<double>("none"); });
  }
  {
    auto in = Hdf5File::open(path);
    in.read<double>("a/x");
    in.read_strings("s");
    in.attributes("a");
    in.read_int_attribute("a", "n");
    in = Hdf5File::open(path);
  }
  CHECK(open_ids() == before);
}

TEST_CASE("threads may use files of their own at the same time") {
  const Scratch scratch;
  const std::string path = scratch.file("rows.h5");
  std::vector<double> values(3 * 5000);
  std::iota(values.begin(), values.end(), 0.0);
  {
    auto file = Hdf5File::create(path);
    file.write("x", values, {5000, 3}, {.fletcher32 = true});
    file.close();
  }
  std::atomic<bool> stop = false;
  auto reading = std::async(std::launch::async, [&] {
    std::int64_t good = 0, reads = 0;
    const auto file = Hdf5File::open(path);
    const kan::io::Hdf5Rows rows(file, "x");
    std::vector<double> out(3 * 100);
    for (std::int64_t at = 0; !stop; at = (at + 100) % 5000, ++reads) {
      rows.read(at, at + 100, out.data());
      good += std::equal(out.begin(), out.end(), values.begin() + 3 * at) ? 1 : 0;
    }
    return std::pair(good, reads);
  });
  for (int n = 0; n < 200; ++n) {
    auto file = Hdf5File::create_in_memory("history");
    file.write_attribute("/", "text", std::string("row"));
    file.write("a", values, {5000, 3}, {.fletcher32 = true});
    const auto bytes = file.close_to_bytes();
    CHECK(error_of([&] {
            Hdf5File::open_bytes(bytes, "b").read<double>("none");
          }).has("has no dataset 'none'"));
  }
  stop = true;
  const auto [good, reads] = reading.get();
  CHECK(reads > 0);
  CHECK(good == reads);
}

TEST_CASE("rows piece by piece, across chunks, and a bad chunk is named") {
  const Scratch scratch;
  const std::string path = scratch.file("rows.h5");
  std::vector<float> values(400000);
  std::iota(values.begin(), values.end(), 0.0f);
  {
    auto file = Hdf5File::create(path);
    file.write("cut", values, {200000, 2}, {.fletcher32 = true});
    file.write("whole", values, {400000});
    file.write("empty", std::vector<double>(), {0, 2});
    file.close();
  }
  {
    const auto file = Hdf5File::open(path);
    const kan::io::Hdf5Rows cut(file, "cut"), whole(file, "whole"), none(file, "empty");
    CHECK(cut.rows() == 200000);
    CHECK(cut.columns() == 2);
    CHECK(cut.chunk_rows() > 1000);
    CHECK(whole.chunk_rows() == 0);
    CHECK(none.columns() == 2);
    std::vector<double> out(2 * 200000);
    for (const std::int64_t step : {777, 200000}) {
      for (std::int64_t at = 0; at < 200000; at += step)
        cut.read(at, std::min<std::int64_t>(at + step, 200000), out.data() + 2 * at);
      CHECK(std::equal(out.begin(), out.end(), values.begin()));
    }
  }
  {
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(std::filesystem::file_size(path) / 4);
    bytes.put('\x55');
  }
  const auto file = Hdf5File::open(path);
  const kan::io::Hdf5Rows cut(file, "cut");
  std::vector<double> out(2 * 200000);
  const auto error = error_of([&] { cut.read(0, 200000, out.data()); });
  CHECK(error.code == Code::data);
  CHECK(error.has(path + ": rows 0:200000 of dataset 'cut' cannot be read"));
}
