// Order of the training rows in an epoch: position -> row, a function of (seed, epoch)
// only, the same on every rank. Fisher-Yates from counter-based random numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace kan {

/// A permutation of 0..rows-1, or the identity where shuffle is off. rows < 2^32.
std::vector<std::uint32_t> row_order(std::uint64_t seed, std::int64_t epoch,
                                     std::int64_t rows, bool shuffle);

/// 0..rows-1, rows < 2^32.
std::vector<std::uint32_t> identity(std::int64_t rows);

/// Shuffles with the random words of a stream from block `first` on: no more blocks than
/// there are elements.
void shuffle_order(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                   std::vector<std::uint32_t>& order);

}  // namespace kan
