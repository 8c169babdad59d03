// Checkpoints: bit-exact round trips, the layout that the manual promises, and that no
// change of any byte goes unnoticed.
#include "io/checkpoint.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <cstring>
#include <set>

#include "io/atomic_file.hpp"
#include "io/checkpoint_files.hpp"
#include "io/history_file.hpp"
#include "unit/fake_state.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using namespace kan::test;

namespace {

RunInfo fake_run() {
  RunInfo run;
  run.mpi = "none";
  run.ranks = 3;
  run.threads = 2;
  run.precision = "double";
  run.deck = "<job>\nname = test # \xc3\xa4\n";
  run.device = "test device";
  return run;
}

void put_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// Both readers refuse with code 5, one line, and the path in it.
void check_refused(const std::string& path) {
  for (const Caught& error : {error_of([&] { read_checkpoint<double>(path); }),
                              error_of([&] { read_checkpoint_header(path); })}) {
    REQUIRE(error.code == Code::checkpoint);
    REQUIRE(error.has(path));
    REQUIRE(error.message.find('\n') == std::string::npos);
  }
}

/// Changes the only place of `pattern` in a sealed file, and seals it anew.
void tamper(const std::string& path, const void* pattern, std::size_t size) {
  std::vector<std::byte> bytes = read_sealed(path);
  const std::byte* wanted = static_cast<const std::byte*>(pattern);
  const auto at = std::search(bytes.begin(), bytes.end(), wanted, wanted + size);
  REQUIRE(at != bytes.end());
  *at ^= std::byte{1};
  write_sealed(path, bytes);
}

template <class T>
void check_round_trip(int moments, bool scaled) {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  const TrainingState<T> state = fake_state<T>(5, moments, scaled);
  write_checkpoint(path, state, fake_run(), Reason::signal);
  const TrainingState<T> back = read_checkpoint<T>(path);
  CHECK(same_state(state, back));
  CHECK(same_bits(state.progress.elapsed, back.progress.elapsed));
  CHECK(back.first_moment.size() == (moments > 0 ? 3u : 0u));
  CHECK(back.second_moment.size() == (moments > 1 ? 3u : 0u));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
}

}  // namespace

TEST_CASE("a checkpoint gives back every bit, in both precisions") {
  for (const int moments : {0, 1, 2}) {
    for (const bool scaled : {false, true}) {
      check_round_trip<float>(moments, scaled);
      check_round_trip<double>(moments, scaled);
    }
  }
}

TEST_CASE("special values survive a checkpoint") {
  const Scratch scratch;
  TrainingState<double> state = fake_state<double>();
  state.progress.best_loss = std::numeric_limits<double>::infinity();
  state.progress.epoch_loss_sum = -0.0;
  state.parameters[0].coef[0] = std::numeric_limits<double>::quiet_NaN();
  state.parameters[0].coef[1] = std::numeric_limits<double>::denorm_min();
  state.progress.epoch_outside.clear();
  state.input_scaling = state.target_scaling = {};
  state.engine = "";
  write_checkpoint(scratch.file("a.rst.h5"), state, fake_run(), Reason::cadence);
  CHECK(same_state(state, read_checkpoint<double>(scratch.file("a.rst.h5"))));
}

TEST_CASE("the layout is the one of the manual, readable by plain HDF5") {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  write_checkpoint(path, fake_state<float>(), fake_run(), Reason::signal);
  const Hdf5File file = Hdf5File::open(path);
  using Shape = std::vector<std::int64_t>;
  const std::pair<const char*, Shape> expected[] = {
      {"/network/layer0/grid", {2, 12}},
      {"/network/layer0/coef", {2, 5, 8}},
      {"/network/layer0/scale_base", {2, 5}},
      {"/network/layer0/scale_spline", {2, 5}},
      {"/network/layer0/mask", {2, 5}},
      {"/network/layer2/coef", {3, 1, 8}},
      {"/optimizer/layer0/m/coef", {2, 5, 8}},
      {"/optimizer/layer2/v/scale_base", {3, 1}},
      {"/data/input_scale", {2}},
      {"/data/target_shift", {1}}};
  for (const auto& [name, shape] : expected) CHECK(file.info(name).shape == shape);
  CHECK_FALSE(file.exists("/network/layer1/scale_base"));
  CHECK(file.info("/network/layer0/coef").bytes == 4);
  for (const std::string& name : file.datasets()) {
    for (const char* label : {"units", "dims", "description"}) {
      CHECK_FALSE(file.read_string_attribute(name, label).empty());
    }
  }
  const std::vector<std::string> names = file.attributes("/info");
  const std::set<std::string> wanted = {
      "format_version", "code_version", "git_hash", "compiler", "kokkos_version",
      "backend",        "device",       "mpi",      "ranks",    "threads",
      "training",       "precision",    "step",     "epoch",    "samples_seen",
      "elapsed",        "created_utc",  "hostname", "reason"};
  CHECK(std::set<std::string>(names.begin(), names.end()) == wanted);
  CHECK(file.read_string_attribute("/info", "reason") == "signal");
  CHECK(file.read_string_attribute("/info", "precision") == "float");
  CHECK(file.read_string_attribute("/input", "deck") == fake_run().deck);
  CHECK(file.read_int_attribute("/optimizer", "step") == 12344);
  for (const char* name : {"epoch", "position", "seed", "shards", "history_rows"}) {
    CHECK(file.has_attribute("/state", name));
  }
  CHECK(file.read_string_attribute("/state", "engine") == "tile/host");
  CHECK(file.read_string_attribute("/", "digest").size() == 16);
}

TEST_CASE("the header tells what a restart must know before it knows the precision") {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  write_checkpoint(path, fake_state<float>(), fake_run(), Reason::final);
  const CheckpointHeader header = read_checkpoint_header(path);
  CHECK(header.path == path);
  CHECK(header.precision == "float");
  CHECK(header.deck == fake_run().deck);
  CHECK(header.reason == "final");
  CHECK(header.engine == "tile/host");
  CHECK(header.data_digest == "0123456789abcdef");
  CHECK(header.step == 12345);
  CHECK(header.epoch == 7);
  CHECK(header.shards == 8);
  CHECK(header.scale_trained);
  REQUIRE(header.shape.size() == 3);
  CHECK(header.shape[1].base == Base::none);
  CHECK(header.shape[2].grid == 7);
}

TEST_CASE("every byte that is changed or missing is noticed") {
  const Scratch scratch;
  const std::string good = scratch.file("good.rst.h5"), bad = scratch.file("bad.rst.h5");
  write_checkpoint(good, fake_state<double>(), fake_run(), Reason::cadence);
  const std::vector<std::byte> bytes = read_file(good, Code::checkpoint);
  put_bytes(bad, bytes);
  REQUIRE_NOTHROW(read_checkpoint<double>(bad));
  const std::size_t stride = std::max<std::size_t>(1, bytes.size() / 400);
  for (std::size_t at = 0; at < bytes.size(); at += at + 64 < bytes.size() ? stride : 1) {
    std::vector<std::byte> changed = bytes;
    changed[at] ^= static_cast<std::byte>(1 << (at % 8));
    put_bytes(bad, changed);
    INFO("byte " << at << " of " << bytes.size());
    check_refused(bad);
  }
  for (std::size_t size = 0; size < bytes.size(); size += stride) {
    put_bytes(bad, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    INFO("cut to " << size << " of " << bytes.size());
    check_refused(bad);
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  put_bytes(bad, longer);
  check_refused(bad);
  put_bytes(bad, std::vector<std::byte>(100000, std::byte{0x5a}));
  check_refused(bad);
}

TEST_CASE("a payload changed under a right seal is noticed by its own digest") {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  const TrainingState<double> state = fake_state<double>();
  SECTION("array") {
    write_checkpoint(path, state, fake_run(), Reason::cadence);
    tamper(path, state.first_moment[0].coef.data(), 64);
  }
  SECTION("attribute") {
    write_checkpoint(path, state, fake_run(), Reason::cadence);
    tamper(path, &state.progress.position, 8);
    CHECK(error_of([&] { read_checkpoint<double>(path); }).has("have the digest"));
  }
  const Caught error = error_of([&] { read_checkpoint<double>(path); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has(path));
}

TEST_CASE("other precision, version, network or kind of file: both values are named") {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  write_checkpoint(path, fake_state<float>(), fake_run(), Reason::cadence);
  Caught error = error_of([&] { read_checkpoint<double>(path); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("run/precision = double in the deck, float in the checkpoint"));

  const CheckpointHeader header = read_checkpoint_header(path);
  CHECK_NOTHROW(check_same_network(header, fake_shape(), true));
  std::vector<LayerShape> other = fake_shape();
  other[0].out = other[1].in = 9;
  error = error_of([&] { check_same_network(header, other, true); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("network/widths = 2,9,3,1 in the deck, 2,5,3,1 in the checkpoint"));
  other = fake_shape();
  other[1].grid = 6;
  CHECK(error_of([&] {
          check_same_network(header, other, true);
        }).has("network/grid = 5,6,7 in the deck, 5,4,7 in the checkpoint"));
  CHECK(error_of([&] {
          check_same_network(header, fake_shape(), false);
        }).has("network/spline_scale = folded in the deck, trained in the checkpoint"));

  Hdf5File later = Hdf5File::create_in_memory("later");
  later.make_group("/info");
  later.write_attribute("/info", "format_version", 99);
  later.write_attribute("/info", "code_version", "9.9");
  std::vector<std::byte> bytes = later.close_to_bytes();
  write_sealed(path, bytes);
  error = error_of([&] { read_checkpoint<double>(path); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("format version 99, this program reads version 1"));

  write_history_file(path, {}, fake_run(), {});
  CHECK(error_of([&] { read_checkpoint_header(path); }).has("not a checkpoint"));
  CHECK(error_of([&] { read_checkpoint_header(scratch.file("none")); }).code ==
        Code::checkpoint);
  CHECK(error_of([&] { read_checkpoint_header(scratch.path()); }).code ==
        Code::checkpoint);
}

TEST_CASE("a failed write names path and reason and leaves the old file") {
  const Scratch scratch;
  const std::string path = scratch.file("a.rst.h5");
  const TrainingState<double> old = fake_state<double>(1), next = fake_state<double>(2);
  write_checkpoint(path, old, fake_run(), Reason::cadence);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{4096, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Caught error =
      error_of([&] { write_checkpoint(path, next, fake_run(), Reason::cadence); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(error.code == Code::output);
  CHECK(error.has(path));
  CHECK(error.has("File too large"));
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  CHECK(same_state(old, read_checkpoint<double>(path)));

  const std::string nowhere = scratch.file("missing/a.rst.h5");
  const Caught gone =
      error_of([&] { write_checkpoint(nowhere, next, fake_run(), Reason::cadence); });
  CHECK(gone.code == Code::output);
  CHECK(gone.has("No such file or directory"));
}

namespace {

/// A run directory that is filled by writing states at these steps.
struct Run {
  Scratch scratch;
  RunDirectory directory{scratch.path(), "run", Existing::refuse};
  CheckpointFiles files{directory, fake_run(), 3};

  void write(std::int64_t step, double best = 1.0) {
    TrainingState<double> state = fake_state<double>(static_cast<std::uint64_t>(step));
    state.progress.step = step;
    state.progress.best_loss = best;
    files.write(state, Reason::cadence);
  }
  std::string path(std::int64_t step) const { return directory.checkpoint_path(step); }
  void damage(std::int64_t step) const { std::filesystem::resize_file(path(step), 1000); }
  FoundCheckpoint find(const std::string& request) const {
    return find_checkpoint(scratch.path(), "run", request);
  }
  bool has(const std::string& file) const {
    return std::filesystem::exists(scratch.file(file));
  }
};

}  // namespace

TEST_CASE("the last ones and the best are kept") {
  Run run;
  run.write(100, 0.5);
  run.write(200, 0.3);
  for (const std::int64_t step : {300, 400, 500, 600}) run.write(step, 0.3);
  CHECK_FALSE(run.has("run.00000200.rst.h5"));
  CHECK_FALSE(run.has("run.00000300.rst.h5"));
  for (const std::int64_t step : {400, 500, 600}) {
    CHECK(std::filesystem::exists(run.path(step)));
  }
  CHECK(read_checkpoint_header(run.directory.best_path()).step == 200);
  run.write(700, 0.2);
  CHECK(read_checkpoint_header(run.directory.best_path()).step == 700);
  run.write(123456789, 0.2);
  CHECK(run.has("run.123456789.rst.h5"));
  CHECK(run.find("latest").header.step == 123456789);
  CHECK_FALSE(run.has("run.best.rst.h5.tmp"));
}

TEST_CASE("the newest good checkpoint is found, and bad ones are told of") {
  Run run;
  CHECK(run.find("auto").exists() == false);
  CHECK(run.find("auto").notes.at(0).find("from the beginning") != std::string::npos);
  CHECK(error_of([&] { run.find("latest"); }).code == Code::checkpoint);
  CHECK(error_of([&] {
          find_checkpoint(run.scratch.file("no"), "run", "latest");
        }).code == Code::checkpoint);
  CHECK_FALSE(find_checkpoint(run.scratch.file("no"), "run", "auto").exists());
  for (const std::int64_t step : {100, 200, 300}) run.write(step);
  run.scratch.write("run.00000900.rst.h5.tmp", "left by a kill");
  run.scratch.write("run.x0000900.rst.h5", "another name");
  run.scratch.write("run2.00000900.rst.h5", "another run");
  CHECK(run.find("latest").header.step == 300);
  CHECK(run.find("latest").notes.empty());
  CHECK(run.find("auto").header.path == run.path(300));

  run.damage(300);
  const FoundCheckpoint found = run.find("latest");
  CHECK(found.header.step == 200);
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find(run.path(300)) != std::string::npos);
  CHECK(found.notes[0].find("cut short") != std::string::npos);
  const Caught named = error_of([&] { run.find(run.path(300)); });
  CHECK(named.code == Code::checkpoint);
  CHECK(named.has("-r latest"));
  CHECK(run.find(run.path(100)).header.step == 100);

  std::filesystem::copy_file(run.path(100), run.path(250));
  CHECK(run.find("latest").header.step == 200);
  CHECK(run.find("latest").notes.size() == 2);
  for (const std::int64_t step : {100, 200, 250}) run.damage(step);
  for (const char* request : {"latest", "auto"}) {
    const Caught error = error_of([&] { run.find(request); });
    CHECK(error.code == Code::checkpoint);
    CHECK(error.has("all 4 checkpoints"));
  }
}

TEST_CASE("a restart sets newer checkpoints aside and mends the best") {
  Run run;
  run.write(100, 0.5);
  run.write(200, 0.4);
  run.write(300, 0.1);
  CheckpointFiles files(run.directory, fake_run(), 3);
  Progress progress;
  progress.step = 200;
  progress.best_loss = 0.4;
  const std::vector<std::string> notes = files.resume(run.path(200), progress);
  CHECK(notes.size() == 2);
  CHECK(run.has("run.00000300.rst.h5.aside"));
  CHECK_FALSE(run.has("run.00000300.rst.h5"));
  CHECK(read_checkpoint_header(run.directory.best_path()).step == 200);
  CHECK(run.find("latest").header.step == 200);
  // Killed between the checkpoint and the best: the next start makes it.
  remove_file(run.directory.best_path());
  CheckpointFiles(run.directory, fake_run(), 3).resume(run.path(200), progress);
  CHECK(read_checkpoint_header(run.directory.best_path()).step == 200);
}
