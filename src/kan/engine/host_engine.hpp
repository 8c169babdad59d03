// Host form of the tile engine: one thread takes a leaf, tile by tile, through all
// layers.
#pragma once

#include <memory>

#include "kan/engine/engine.hpp"

namespace kan {

template <class T>
std::unique_ptr<Engine<T>> make_host_engine(const Exec& exec, const Network<T>& network);

}  // namespace kan
