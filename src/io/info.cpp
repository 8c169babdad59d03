// The git hash comes from a header that each build refreshes; no other source includes
// it, so that a commit rebuilds this file alone.
#include "io/info.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <ctime>
#include <fstream>

#include "kan/git_hash.hpp"
#include "kan/types.hpp"

namespace kan::io {

std::string code_version() { return KAN_VERSION; }

std::string git_hash() { return KAN_GIT_HASH; }

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__,
                     __clang_patchlevel__);
#elif defined(__GNUC__)
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

std::string kokkos_version() {
  return fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
                     KOKKOS_VERSION % 100);
}

std::string backend() { return Exec::name(); }

std::string device() {
  if (!kHostExecution) {
    const int number = Kokkos::is_initialized() ? Kokkos::device_id() : -1;
    return number < 0 ? backend() : fmt::format("{} device {}", backend(), number);
  }
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string hostname() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04d}-{:02d}-{:02d}T{:02d}:{:02d}:{:02d}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

std::string to_string(Reason reason) {
  switch (reason) {
    case Reason::cadence:
      return "cadence";
    case Reason::final:
      return "final";
    case Reason::walltime:
      return "walltime";
    case Reason::signal:
      return "signal";
    case Reason::request:
      return "request";
  }
  return "unknown";
}

void write_info(Hdf5File& file, const RunInfo& run, const Moment& moment) {
  const std::string at = "/info";
  file.make_group(at);
  file.write_attribute(at, "format_version", kFormatVersion);
  file.write_attribute(at, "code_version", code_version());
  file.write_attribute(at, "git_hash", git_hash());
  file.write_attribute(at, "compiler", compiler());
  file.write_attribute(at, "kokkos_version", kokkos_version());
  file.write_attribute(at, "backend", backend());
  file.write_attribute(at, "device", run.device);
  file.write_attribute(at, "mpi", run.mpi);
  file.write_attribute(at, "ranks", run.ranks);
  file.write_attribute(at, "threads", run.threads);
  file.write_attribute(at, "precision", run.precision);
  file.write_attribute(at, "training", run.training ? 1 : 0);
  file.write_attribute(at, "step", moment.step);
  file.write_attribute(at, "epoch", moment.epoch);
  file.write_attribute(at, "samples_seen", moment.samples_seen);
  file.write_attribute(at, "elapsed", moment.elapsed);
  file.write_attribute(at, "created_utc", utc_now());
  file.write_attribute(at, "hostname", hostname());
  file.write_attribute(at, "reason", to_string(moment.reason));
  file.make_group("/input");
  file.write_attribute("/input", "deck", run.deck);
}

void describe(Hdf5File& file, const std::string& dataset, const std::string& units,
              const std::string& dims, const std::string& description) {
  file.write_attribute(dataset, "units", units);
  file.write_attribute(dataset, "dims", dims);
  file.write_attribute(dataset, "description", description);
}

}  // namespace kan::io
