// The run directory: names, refusal of other runs' results, the lock and its takeover
// from the dead, request files, and errors that name path and reason.
#include "io/run_directory.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <thread>

#include "io/atomic_file.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using namespace kan::test;

namespace {

RunDirectory open_run(const Scratch& scratch, Existing existing = Existing::refuse) {
  return RunDirectory(scratch.path(), "run", existing);
}

std::string file_text(const std::string& path) {
  return read_text_file(path, Code::data);
}

/// A lock file as `owner` would have left it.
void leave_lock(const Scratch& scratch, const LockOwner& owner) {
  scratch.write("run.lock", owner.text());
}

/// The pid of a process that takes the lock, says so through a pipe, and waits.
pid_t start_holder(const Scratch& scratch) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const RunDirectory run(scratch.path(), "run", Existing::restart);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("names are those of the manual") {
  const Scratch scratch;
  const RunDirectory run(scratch.file("a/b/"), "run", Existing::refuse);
  const std::string at = scratch.file("a/b");
  CHECK(run.directory() == at);
  CHECK(run.path(".log") == at + "/run.log");
  CHECK(run.checkpoint_path(12000) == at + "/run.00012000.rst.h5");
  CHECK(run.checkpoint_path(1234567890) == at + "/run.1234567890.rst.h5");
  CHECK(run.best_path() == at + "/run.best.rst.h5");
  CHECK(run.segment_path(0) == at + "/run.hst.00000000.h5");
  CHECK(run.joined_path() == at + "/run.hst.h5");
  CHECK(run.history_text_path() == at + "/run.hst");
  CHECK(run.output_path(1, 12000) == at + "/run.out1.00012000.h5");
}

TEST_CASE("a name that is no file name is refused") {
  const Scratch scratch;
  for (const char* name : {"", ".", "..", "a/b"}) {
    const Caught error =
        error_of([&] { RunDirectory(scratch.path(), name, Existing::refuse); });
    CHECK(error.code == Code::usage);
    CHECK(error.has("job/name"));
  }
}

TEST_CASE("a directory that cannot be made or used: code 4 with path and reason") {
  const Scratch scratch;
  scratch.write("file", "text");
  for (const std::string& path : {scratch.file("file"), scratch.file("file/below")}) {
    const Caught error = error_of([&] { RunDirectory(path, "run", Existing::refuse); });
    CHECK(error.code == Code::output);
    CHECK(error.has(path));
    CHECK(error.has("Not a directory"));
  }
  const Caught error =
      error_of([] { RunDirectory("/proc/kan", "run", Existing::refuse); });
  CHECK(error.code == Code::output);
  CHECK(error.has("/proc/kan"));
}

TEST_CASE("a directory without write permission: code 4") {
  const Scratch scratch;
  if (geteuid() == 0) {
    // The superuser may write everywhere but here.
    const Caught error =
        error_of([] { RunDirectory("/proc/self/fdinfo", "run", Existing::refuse); });
    CHECK(error.code == Code::output);
    CHECK(error.has("/proc/self/fdinfo/run.lock"));
    return;
  }
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::owner_read |
                                                   std::filesystem::perms::owner_exec);
  const Caught error = error_of([&] { open_run(scratch); });
  std::filesystem::permissions(scratch.path(), std::filesystem::perms::owner_all);
  CHECK(error.code == Code::output);
  CHECK(error.has("Permission denied"));
}

TEST_CASE("results of an earlier run are not overwritten unasked") {
  const Scratch scratch;
  for (const char* file :
       {"run.hst", "run.hst.h5", "run.hst.00000000.h5", "run.report.json",
        "run.00000100.rst.h5", "run.best.rst.h5", "run.out12.00000100.h5"}) {
    scratch.write(file, "x");
    const Caught error = error_of([&] { open_run(scratch); });
    CHECK(error.code == Code::output);
    CHECK(error.has(file));
    CHECK(error.has("--force"));
    CHECK_FALSE(std::filesystem::exists(scratch.file("run.lock")));
    {
      const RunDirectory kept = open_run(scratch, Existing::restart);
    }
    CHECK(std::filesystem::exists(scratch.file(file)));
    {
      RunDirectory fresh = open_run(scratch, Existing::replace);
      CHECK(std::filesystem::exists(scratch.file(file)));
      fresh.clear();
    }
    CHECK_FALSE(std::filesystem::exists(scratch.file(file)));
  }
  // None of these is in the way, and none is touched.
  for (const char* file : {"run.log", "run2.hst", "run.deck", "other.00000100.rst.h5",
                           "run", "run.out.00000100.h5", "run.00001.rst.h5"}) {
    scratch.write(file, "x");
  }
  {
    const RunDirectory run = open_run(scratch);
  }
  {
    RunDirectory run = open_run(scratch, Existing::replace);
    run.clear();
  }
  CHECK(std::filesystem::exists(scratch.file("run2.hst")));
  CHECK(std::filesystem::exists(scratch.file("run.deck")));
  CHECK(std::filesystem::exists(scratch.file("run")));
  CHECK_FALSE(std::filesystem::exists(scratch.file("run.log")));
}

TEST_CASE("temporary and request files of before are swept, with a note") {
  const Scratch scratch;
  scratch.write("run.00000100.rst.h5.tmp", "half");
  scratch.write("run.lock.node.12.tmp", "half");
  scratch.write("run.b.hst.tmp", "of another run");
  scratch.write("stop_now", "");
  RunDirectory run = open_run(scratch);
  CHECK(run.notes().size() == 3);
  CHECK_FALSE(std::filesystem::exists(scratch.file("run.00000100.rst.h5.tmp")));
  CHECK(std::filesystem::exists(scratch.file("run.b.hst.tmp")));
  CHECK_FALSE(run.requested(Request::stop_now));
}

TEST_CASE("request files are seen once each") {
  const Scratch scratch;
  RunDirectory run = open_run(scratch);
  scratch.write("output_now", "");
  CHECK(run.requested(Request::output_now));
  CHECK_FALSE(std::filesystem::exists(scratch.file("output_now")));
  scratch.write("output_now", "");
  CHECK_FALSE(run.requested(Request::output_now));  // asked less than a second ago
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  CHECK(run.requested(Request::output_now));
  scratch.write("stop_now", "");
  CHECK(run.requested(Request::stop_now));
}

TEST_CASE("a second run is kept out and told who is in") {
  const Scratch scratch;
  const pid_t holder = start_holder(scratch);
  const std::string text = file_text(scratch.file("run.lock"));
  const Caught error = error_of([&] { open_run(scratch, Existing::restart); });
  CHECK(error.code == Code::launch);
  CHECK(error.has("process " + std::to_string(holder) + " on " + LockOwner::self().host));
  CHECK(file_text(scratch.file("run.lock")) == text);
  // Another name in the same directory is another run.
  CHECK_NOTHROW(RunDirectory(scratch.path(), "other", Existing::refuse));
  end(holder);
}

TEST_CASE(
    "the lock of a killed run is taken over with a note, and given back at the end") {
  const Scratch scratch;
  const pid_t holder = start_holder(scratch);
  kill(holder, SIGKILL);
  siginfo_t ended{};
  // Not reaped: a zombie counts as dead.
  REQUIRE(waitid(P_PID, static_cast<id_t>(holder), &ended, WEXITED | WNOWAIT) == 0);
  {
    const RunDirectory run = open_run(scratch);
    REQUIRE(run.notes().size() == 1);
    CHECK(run.notes()[0].find("took over the run lock left by process " +
                              std::to_string(holder)) != std::string::npos);
    const LockOwner owner = LockOwner::parse(file_text(scratch.file("run.lock")));
    CHECK(owner.pid == getpid());
  }
  CHECK_FALSE(std::filesystem::exists(scratch.file("run.lock")));
  waitpid(holder, nullptr, 0);
}

TEST_CASE("only the provably dead lose their lock") {
  const Scratch scratch;
  const LockOwner self = LockOwner::self();
  const auto taken_from = [&](const LockOwner& owner) {
    leave_lock(scratch, owner);
    const bool taken =
        error_of([&] { open_run(scratch, Existing::restart); }).code == Code::done;
    std::filesystem::remove(scratch.file("run.lock"));
    return taken;
  };
  LockOwner owner = self;
  CHECK_FALSE(taken_from(owner));  // this very process, without flock
  owner.start_time += 1;
  CHECK(taken_from(owner));  // the number is in use by another process
  owner = self;
  owner.boot = "00000000-0000-0000-0000-000000000000";
  CHECK(taken_from(owner));
  owner = self;
  owner.flock = true;
  CHECK(taken_from(owner));  // the kernel says that nobody holds it
  owner = self;
  owner.host += "-other";
  owner.start_time += 1;
  owner.flock = true;
  owner.boot = "";
  CHECK_FALSE(taken_from(owner));  // nothing is known of other hosts
  owner = self;
  owner.pid_namespace = "pid:[1]";
  owner.start_time += 1;
  CHECK_FALSE(taken_from(owner));  // numbers of another container mean nothing
  scratch.write("run.lock", "");
  const Caught error = error_of([&] { open_run(scratch, Existing::restart); });
  CHECK(error.code == Code::launch);
  CHECK(error.has("remove the file"));
}

TEST_CASE("a requeued batch job takes over from its earlier launch on another host") {
  const Scratch scratch;
  LockOwner owner = LockOwner::self();
  owner.host += "-other";
  owner.job = "4711";
  owner.requeue = 0;
  leave_lock(scratch, owner);
  setenv("SLURM_JOB_ID", "4711", 1);
  CHECK(error_of([&] { open_run(scratch, Existing::restart); }).has("(job 4711)"));
  setenv("SLURM_RESTART_COUNT", "1", 1);
  CHECK(open_run(scratch, Existing::restart).notes().at(0).find("requeued") !=
        std::string::npos);
  unsetenv("SLURM_JOB_ID");
  unsetenv("SLURM_RESTART_COUNT");
}

TEST_CASE("of many contenders for a stale lock one wins") {
  const Scratch scratch;
  LockOwner stale = LockOwner::self();
  stale.start_time += 1;
  for (int round = 0; round < 10; ++round) {
    leave_lock(scratch, stale);
    int go[2], won[2];
    REQUIRE(pipe(go) == 0);
    REQUIRE(pipe(won) == 0);
    std::vector<pid_t> contenders;
    for (int n = 0; n < 6; ++n) {
      contenders.push_back(fork());
      if (contenders.back() != 0) continue;
      close(go[1]);
      char byte = 0;
      if (read(go[0], &byte, 1) != 0) _exit(1);
      try {
        const RunLock lock(scratch.file("run.lock"));
        if (write(won[1], "w", 1) != 1) _exit(1);
        for (;;) pause();
      } catch (const Error& error) {
        const char letter = error.code() == Code::launch ? 'l' : 'e';
        if (write(won[1], &letter, 1) != 1) _exit(1);
      }
      _exit(0);
    }
    close(go[0]);
    close(go[1]);
    std::string letters;
    for (int n = 0; n < 6; ++n) {
      char letter = 0;
      REQUIRE(read(won[0], &letter, 1) == 1);
      letters += letter;
    }
    close(won[0]);
    close(won[1]);
    for (const pid_t contender : contenders) end(contender);
    CHECK(std::count(letters.begin(), letters.end(), 'w') == 1);
    CHECK(std::count(letters.begin(), letters.end(), 'l') == 5);
  }
}

TEST_CASE("files are replaced whole, and a full disk is code 4 with the reason") {
  const Scratch scratch;
  const std::string path = scratch.file("a.json");
  write_file_atomic(path, "first");
  write_file_atomic(path, "second");
  CHECK(file_text(path) == "second");
  CHECK_THROWS_AS(
      write_file_atomic(path, std::as_bytes(std::span("third", 5)),
                        [](const std::string&) { throw Error(Code::output, "refused"); }),
      Error);
  CHECK(file_text(path) == "second");
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
  if (std::filesystem::exists("/dev/full")) {
    AppendFile full("/dev/full");
    const Caught error = error_of([&] { full.write("text"); });
    CHECK(error.code == Code::output);
    CHECK(error.has("cannot write /dev/full: No space left on device"));
  }
  RunDirectory run = open_run(scratch);  // makes the size limit an error, not a signal
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{16, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const Caught error = error_of([&] { write_file_atomic(path, std::string(100, 'x')); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(error.code == Code::output);
  CHECK(error.has("File too large"));
  CHECK(file_text(path) == "second");
}
