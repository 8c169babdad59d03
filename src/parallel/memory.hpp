// How much host memory there is, and how much was used: for the check before a large
// allocation and for the report. Linux only; elsewhere the figures are 0 (unknown).
#pragma once

#include <cstdint>
#include <string>

namespace kan::parallel {

/// Bytes. limit says what bounds free: "machine", or "control group PATH".
struct HostMemory {
  std::int64_t free = 0;   ///< can still be allocated by all processes here together
  std::int64_t total = 0;  ///< of the machine or the control group, whichever is less
  std::string limit = "machine";
};

/// From /proc/meminfo and the limits of the control groups (versions 1 and 2) that this
/// process is in, up to their root; memory of files that can be dropped counts as free.
/// Ranks of one node see the same figure. root: put before /proc and /sys (for tests).
HostMemory host_memory(const std::string& root = "");

/// Largest resident set of this process so far, bytes.
std::int64_t peak_resident_bytes();

}  // namespace kan::parallel
