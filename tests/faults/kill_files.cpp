// Kills a writer of all kinds of files before each of its system calls in turn, also in
// the middle of a write and again during the restart, and checks that the next launch
// ends with the results of a run that nobody disturbed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/atomic_file.hpp"
#include "io/checkpoint.hpp"
#include "io/history_file.hpp"
#include "unit/fake_state.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using namespace kan::test;

namespace {

constexpr const char* kSteps = "9";
constexpr long kFewestCalls = 70;  // a few more come with a slow machine

// A kill leaves the system's caches, so the tests need no disk: memory is faster.
const bool kInMemory =
    access("/dev/shm", W_OK) == 0 && setenv("TMPDIR", "/dev/shm", 1) == 0;

struct Ended {
  bool killed = false;
  int code = -1;
};

/// Runs the writer in `directory`; at: the call to be killed at, 0 for none.
Ended launch(const std::string& directory, long at, bool partial = false,
             const std::string& report = "", const std::string& trace = "") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("LD_PRELOAD", KAN_KILL_SHIM, 1);
    setenv("KAN_KILL_DIR", directory.c_str(), 1);
    setenv("KAN_KILL_AT", std::to_string(at).c_str(), 1);
    if (partial) setenv("KAN_KILL_PARTIAL", "1", 1);
    if (!report.empty()) setenv("KAN_KILL_COUNT_FILE", report.c_str(), 1);
    if (!trace.empty()) setenv("KAN_KILL_TRACE", trace.c_str(), 1);
    execl(KAN_FILE_WRITER, KAN_FILE_WRITER, directory.c_str(), kSteps, nullptr);
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  Ended ended;
  ended.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  return ended;
}

/// Rows of the text without the columns of rates and times.
std::vector<std::string> text_rows(const std::string& path) {
  std::istringstream lines(read_text_file(path, Code::data));
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# restart")) continue;
    rows.push_back(line.starts_with('#') ? line : line.substr(0, 72));
  }
  return rows;
}

/// All that a run leaves, apart from times.
struct Results {
  std::vector<std::string> names;
  std::map<std::string, TrainingState<double>> checkpoints;
  std::map<std::string, std::vector<double>> predictions;
  HistoryRows history;
  std::vector<std::string> text;
  double train_loss = 0;

  explicit Results(const std::string& directory) {
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      names.push_back(name);
      if (name.ends_with(".rst.h5")) {
        checkpoints.emplace(name, read_checkpoint<double>(entry.path().string()));
      } else if (name.find(".out") != std::string::npos) {
        predictions[name] =
            Hdf5File::open(entry.path().string()).read<double>("/prediction");
      }
    }
    std::sort(names.begin(), names.end());
    history = read_history(directory, "run");
    text = text_rows(directory + "/run.hst");
    train_loss = nlohmann::json::parse(
        read_text_file(directory + "/run.report.json", Code::data))["train_loss"];
  }
};

void check_same(const Results& a, const Results& b) {
  CHECK(a.names == b.names);
  CHECK(a.text == b.text);
  CHECK(a.train_loss == b.train_loss);
  CHECK(a.predictions == b.predictions);
  REQUIRE(a.checkpoints.size() == b.checkpoints.size());
  for (const auto& [name, state] : a.checkpoints) {
    INFO(name);
    CHECK(same_state(state, b.checkpoints.at(name)));
  }
  const HistoryRows &x = a.history, &y = b.history;
  REQUIRE(x.steps.size() == y.steps.size());
  for (std::size_t n = 0; n < x.steps.size(); ++n) {
    CHECK(x.steps[n].step == y.steps[n].step);
    CHECK(x.steps[n].epoch == y.steps[n].epoch);
    CHECK(same_bits(x.steps[n].loss, y.steps[n].loss));
    CHECK(same_bits(x.steps[n].gradient_norm, y.steps[n].gradient_norm));
  }
  REQUIRE(x.epochs.size() == y.epochs.size());
  for (std::size_t n = 0; n < x.epochs.size(); ++n) {
    CHECK(x.epochs[n].epoch == y.epochs[n].epoch);
    CHECK(same_bits(x.epochs[n].train_loss, y.epochs[n].train_loss));
    CHECK(same_bits(x.epochs[n].outside, y.epochs[n].outside));
  }
}

/// An undisturbed run, and the number of calls it makes.
struct Reference {
  Scratch scratch;
  long calls = 0;
  std::unique_ptr<Results> results;

  Reference() {
    INFO("scratch files in memory: " << kInMemory);
    std::filesystem::create_directory(scratch.file("run"));
    REQUIRE(launch(scratch.file("run"), 0, false, scratch.file("count")).code == 0);
    calls = std::stol(read_text_file(scratch.file("count"), Code::data));
    results = std::make_unique<Results>(scratch.file("run"));
  }
};

}  // namespace

TEST_CASE("an undisturbed run leaves exactly its results") {
  const Reference reference;
  CHECK(reference.calls > kFewestCalls);
  const std::vector<std::string> expected = {
      "run.00000008.rst.h5",  "run.00000009.rst.h5",
      "run.best.rst.h5",      "run.hst",
      "run.hst.h5",           "run.log",
      "run.out3.00000006.h5", "run.report.json"};
  CHECK(reference.results->names == expected);
  CHECK(reference.results->history.steps.size() == 9);
  CHECK(reference.results->history.epochs.size() == 3);
}

TEST_CASE("killed before any system call, and again in the restart: the same results") {
  const Reference reference;
  long at = 1;
  for (;; ++at) {
    INFO("killed at call " << at);
    const Scratch scratch;
    const Ended first = launch(scratch.path(), at);
    REQUIRE((first.killed || first.code == 0));
    if (!first.killed) break;
    // The second launch is killed somewhere else each time, or comes to its end.
    const Ended second = launch(scratch.path(), 1 + at * 37 % reference.calls);
    REQUIRE((second.killed || second.code == 0));
    REQUIRE(launch(scratch.path(), 0).code == 0);
    check_same(*reference.results, Results(scratch.path()));
  }
  CHECK(at > kFewestCalls);
}

TEST_CASE("killed in the middle of any write: the same results") {
  const Reference reference;
  long at = 1;
  for (;; ++at) {
    INFO("killed in call " << at);
    const Scratch scratch;
    const Ended first = launch(scratch.path(), at, true);
    REQUIRE((first.killed || first.code == 0));
    if (!first.killed) break;
    REQUIRE(launch(scratch.path(), 0).code == 0);
    check_same(*reference.results, Results(scratch.path()));
  }
  CHECK(at > kFewestCalls);
}

TEST_CASE("what is renamed was synced before, and its directory is synced at once") {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.file("run"));
  REQUIRE(launch(scratch.file("run"), 0, false, "", scratch.file("trace")).code == 0);
  std::istringstream lines(read_text_file(scratch.file("trace"), Code::data));
  std::map<std::string, std::string> last;  // call on a path
  bool renamed = false;
  int renames = 0;
  for (std::string call, path; lines >> call >> path;) {
    INFO(call << " " << path);
    if (renamed && call != "fsync") {
      // Only the spare name of a link may be looked for in between.
      CHECK(call == "unlink");
      CHECK(path.ends_with(".best.rst.h5.tmp"));
    }
    if (call == "fsync" && path.ends_with("/run")) renamed = false;
    if (call == "rename") {
      CHECK((last[path] == "fsync" || last[path] == "link"));
      renamed = true;
      ++renames;
    }
    last[path] = call;
  }
  CHECK_FALSE(renamed);
  CHECK(renames > 10);
}
