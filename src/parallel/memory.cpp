// Reads /proc/meminfo and the files of control groups: memory.max, memory.current and
// memory.stat (inactive_file) in version 2, memory.limit_in_bytes, memory.usage_in_bytes
// and memory.stat (total_inactive_file) in version 1. A batch system puts a job's limit
// on a group above the process's own, so all groups up to the root are looked at.
#include "parallel/memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace kan::parallel {
namespace {

using Bytes = std::optional<std::int64_t>;

/// Number after `key` (a whole first word of a line; with an empty key the file's first
/// word); empty where there is none, as for "max" or a number beyond 64 bits.
Bytes number_in(const std::string& file, const std::string& key = "") {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string word;
    if (!key.empty() && (!(words >> word) || word != key)) continue;
    std::int64_t value = 0;
    if (!(words >> word)) return {};
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return {};
    return value;
  }
  return {};
}

struct GroupFiles {
  const char *limit, *usage, *reclaimable;
};
constexpr GroupFiles kVersion1{"/memory.limit_in_bytes", "/memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles kVersion2{"/memory.max", "/memory.current", "inactive_file"};

/// Lowers memory to what the group at mount + path and its parents allow.
void apply_groups(const std::string& mount, std::string path, const GroupFiles& files,
                  HostMemory& memory) {
  while (true) {
    if (path == "/") path.clear();
    const std::string folder = mount + path;
    const Bytes limit = number_in(folder + files.limit);
    if (limit) {
      const std::int64_t usage = number_in(folder + files.usage).value_or(0);
      const std::int64_t cache =
          number_in(folder + "/memory.stat", files.reclaimable).value_or(0);
      const std::int64_t free =
          std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, usage - cache));
      if (free < memory.free) {
        memory.free = free;
        memory.limit = "control group " + (path.empty() ? "/" : path);
      }
      memory.total = std::min(memory.total, *limit);
    }
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  constexpr std::int64_t kKilobyte = 1024;  // what meminfo calls kB
  HostMemory memory;
  memory.total = kKilobyte * number_in(root + "/proc/meminfo", "MemTotal:").value_or(0);
  memory.free =
      kKilobyte * number_in(root + "/proc/meminfo", "MemAvailable:").value_or(0);
  // Lines are "hierarchy:controllers:path"; version 2 is "0::path".
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers =
        "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      apply_groups(root + "/sys/fs/cgroup", path, kVersion2, memory);
    } else if (controllers.find(",memory,") != std::string::npos) {
      apply_groups(root + "/sys/fs/cgroup/memory", path, kVersion1, memory);
    }
  }
  return memory;
}

std::int64_t peak_resident_bytes() {
  constexpr std::int64_t kKilobyte = 1024;
  // getrusage also counts what the process was before it became this program.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return kKilobyte * std::stoll(line.substr(6));
  struct rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return kKilobyte * static_cast<std::int64_t>(usage.ru_maxrss);
}

}  // namespace kan::parallel
