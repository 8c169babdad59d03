// The fixed binary tree over leaf sums.
#pragma once

#include <cstdint>

#include "kan/queue.hpp"

namespace kan {

/// Adds `leaves` (a power of two) arrays of `size` numbers, one after another in memory,
/// into the first one: pairs at distance 1, 2, 4, ... The bits depend on nothing else.
template <class T>
void add_leaves(const Queue& queue, T* all, int leaves, std::int64_t size);

}  // namespace kan
