// Digests of numbers, and whether all ranks hold the same: what every rank must have bit
// for bit (parameters, moments) is compared now and then, as a rank that has gone its own
// way trains on without a sign.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"

namespace kan::parallel {

/// XXH3 (64 bits) of bytes, following on from `before`.
std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t before = 0);

/// Ranks whose value differs from that of most ranks (of rank 0 where two values are
/// equally frequent); empty where all are equal.
std::vector<int> odd_ranks(const std::vector<std::uint64_t>& values);

/// Collective. Throws code 6 on every rank, naming what and the ranks that differ.
void require_equal(Communicator& communicator, std::uint64_t value,
                   const std::string& what);

}  // namespace kan::parallel
