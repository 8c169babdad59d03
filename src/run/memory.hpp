// How much memory a run will hold, from sizes alone, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "kan/shape.hpp"

namespace kan::run {

/// Bytes of one rank.
struct MemoryEstimate {
  std::int64_t data = 0;         ///< rows, scaled, and the copy in fp64 they come from
  std::int64_t windows = 0;      ///< of rows that are streamed
  std::int64_t parameters = 0;   ///< parameters, gradient, kernel table
  std::int64_t optimizer = 0;    ///< moments
  std::int64_t leaves = 0;       ///< gradient sums of the leaves
  std::int64_t activations = 0;  ///< workspace of the threads
  std::int64_t total() const {
    return data + windows + parameters + optimizer + leaves + activations;
  }
};

struct MemoryInputs {
  std::int64_t rows = 0;          ///< of all sets; 0 where not known yet
  std::int64_t window_bytes = 0;  ///< of rows that are streamed
  int target_columns = 1;
  int moments = 2;
  int leaves = 1;
  int threads = 1;
  int bytes = 4;  ///< of one number
};

MemoryEstimate estimate_memory(const Shape& shape, const MemoryInputs& inputs);

/// Error device, naming the largest part and what makes it smaller, where the ranks of a
/// node together need more than is free on the host.
void check_memory(const MemoryEstimate& estimate, int ranks_on_node);

/// "1.4 MiB".
std::string bytes_text(double bytes);

}  // namespace kan::run
