// A check that all ranks pass or fail together, so that no rank leaves the others alone
// in the next collective call.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "parallel/communicator.hpp"

/// True on all ranks if ok is true on all ranks. Collective.
inline bool on_all(kan::parallel::Communicator& communicator, bool ok) {
  std::int64_t failed = ok ? 0 : 1;
  communicator.allreduce_max(std::span(&failed, 1));
  return failed == 0;
}

/// True on all ranks if the bytes are the same on all ranks. Collective.
template <class T>
bool same_on_all(kan::parallel::Communicator& communicator, std::span<const T> values) {
  std::vector<T> first(values.begin(), values.end());
  communicator.broadcast(std::span<T>(first));
  return on_all(communicator, values.empty() || std::memcmp(first.data(), values.data(),
                                                            values.size_bytes()) == 0);
}
