// Host form of the engines. Tile: one thread takes a leaf, tile by tile, through all
// layers. Layer: all threads take many rows of a leaf through one layer after another.
#pragma once

#include <memory>

#include "kan/engine/engine.hpp"

namespace kan {

template <class T>
std::unique_ptr<Engine<T>> make_host_engine(const Exec& exec, const Network<T>& network);

template <class T>
std::unique_ptr<Engine<T>> make_layer_engine(const Exec& exec, const Network<T>& network);

}  // namespace kan
