// Team form of the tile engine (team_tile.hpp): what a GPU runs, on any backend.
#pragma once

#include <memory>

#include "kan/engine/engine.hpp"

namespace kan {

template <class T>
std::unique_ptr<Engine<T>> make_team_engine(const Exec& exec, const Network<T>& network);

}  // namespace kan
