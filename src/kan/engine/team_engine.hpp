// Team form of the tile engine: what a GPU runs, on any backend. Stage 1 (team_tile.hpp)
// takes tiles of rows forward and back, stage 2 (team_gradient.hpp) sums up gradients.
#pragma once

#include <memory>

#include "kan/engine/engine.hpp"
#include "kan/engine/team_plan.hpp"

namespace kan {

/// workspace: bytes of what stage 1 leaves for stage 2, at most (32 rows always fit);
/// larger batches go in chunks, with the same bits.
template <class T>
std::unique_ptr<Engine<T>> make_team_engine(const Exec& exec, const Network<T>& network,
                                            std::int64_t workspace = kTeamWorkspace);

}  // namespace kan
