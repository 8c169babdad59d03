// Checks between the values of a deck, after each value is good by itself: what is
// missing, lengths of lists, values that contradict each other, keys without a use.
#pragma once

#include <set>

#include "io/deck.hpp"
#include "io/deck_errors.hpp"

namespace kan::io {

/// Whether the configuration uses a parameter (its declaration's `when`); unknown where
/// the choice that decides has no good value itself.
enum class Use { yes, no, unknown };
Use use_of(const Deck& deck, const Slot& slot);

/// "type = sgd or adamw": what the parameter goes with.
std::string goes_with(const Parameter& parameter);

/// Adds every error. Slots in `broken` had a bad value, which is listed already: nothing
/// that depends on them is blamed.
void check_deck(const Deck& deck, const std::set<Slot>& broken, ErrorList& errors);

}  // namespace kan::io
