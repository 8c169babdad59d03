// What a run says at its start: under 30 lines.
#pragma once

#include <string>
#include <vector>

#include "kan/shape.hpp"
#include "run/memory.hpp"
#include "run/session.hpp"

namespace kan::run {

/// Version, compiler, Kokkos, ranks, precision, deck and overrides; then the network.
/// engine: kernels in use and why; leaves: of a gradient sum; recorded: whether
/// updates are launched as a graph.
std::string banner(const Session& session, const Shape& shape, const std::string& engine,
                   int leaves, bool recorded, const MemoryEstimate& memory);

/// What -c prints: how this program was built.
std::string configuration();

}  // namespace kan::run
