// Order of the training rows in an epoch: position -> row, a function of (seed, epoch)
// only, the same on every rank. Fisher-Yates from counter-based random numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace kan {

/// A permutation of 0..rows-1, or the identity where shuffle is off. rows < 2^32.
std::vector<std::uint32_t> row_order(std::uint64_t seed, std::int64_t epoch,
                                     std::int64_t rows, bool shuffle);

}  // namespace kan
