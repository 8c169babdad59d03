// Memory figures from made-up /proc and /sys trees with known answers, and sanity of the
// real ones.
#include "parallel/memory.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

namespace {

/// A folder that takes the place of "/" and goes away at the end.
class FakeRoot {
 public:
  explicit FakeRoot(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("kan_memory_" + name + "_" + std::to_string(getpid()))) {
    write("/proc/meminfo",
          "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n");
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() { std::filesystem::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path full = path_.string() + file;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST_CASE("without control groups the machine's available memory counts") {
  const FakeRoot root("machine");
  const auto memory = kan::parallel::host_memory(root.path());
  CHECK(memory.free == 600 * 1024);
  CHECK(memory.total == 1000 * 1024);
  CHECK(memory.limit == "machine");
}

TEST_CASE("version 2: the tightest group up to the root, file cache counted as free") {
  const FakeRoot root("v2");
  root.write("/proc/self/cgroup", "0::/job/step\n");
  root.write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  root.write("/sys/fs/cgroup/job/memory.max", "204800\n");
  root.write("/sys/fs/cgroup/job/memory.current", "102400\n");
  root.write("/sys/fs/cgroup/job/memory.stat", "anon 81920\ninactive_file 20480\n");
  const auto memory = kan::parallel::host_memory(root.path());
  CHECK(memory.free == 204800 - 102400 + 20480);
  CHECK(memory.total == 204800);
  CHECK(memory.limit == "control group /job");
}

TEST_CASE("version 1: the memory controller's own tree, no limit is a huge number") {
  const FakeRoot root("v1");
  root.write("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/slurm/job_7\n");
  const std::string group = "/sys/fs/cgroup/memory/slurm/job_7";
  root.write(group + "/memory.limit_in_bytes", "409600\n");
  root.write(group + "/memory.usage_in_bytes", "500000\n");
  root.write(group + "/memory.stat", "total_inactive_file 0\n");
  root.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const auto memory = kan::parallel::host_memory(root.path());
  CHECK(memory.free == 0);  // over its limit already
  CHECK(memory.total == 409600);
  CHECK(memory.limit == "control group /slurm/job_7");
}

TEST_CASE("a limit in the root group of a container") {
  const FakeRoot root("container");
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/sys/fs/cgroup/memory.max", "300000\n");
  root.write("/sys/fs/cgroup/memory.current", "100000\n");
  CHECK(kan::parallel::host_memory(root.path()).free == 200000);
  CHECK(kan::parallel::host_memory(root.path()).limit == "control group /");
}

TEST_CASE("nothing readable: unknown, not an error") {
  CHECK(kan::parallel::host_memory("/nonexistent").free == 0);
}

TEST_CASE("this machine: some memory, and a peak that follows an allocation") {
  const auto memory = kan::parallel::host_memory();
  CHECK(memory.total > 0);
  CHECK(memory.free <= memory.total);
  const std::int64_t before = kan::parallel::peak_resident_bytes();
  CHECK(before > 0);
  std::vector<char> touched(static_cast<std::size_t>(before) + (64u << 20), 1);
  CHECK(kan::parallel::peak_resident_bytes() >=
        static_cast<std::int64_t>(touched.size()) * touched.back());
}

}  // namespace
