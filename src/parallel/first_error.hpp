// Errors that some ranks meet between two collective calls, thrown on all of them.
#pragma once

#include <cstdint>
#include <optional>

#include "kan/error.hpp"
#include "parallel/communicator.hpp"

namespace kan::parallel {

/// Collective. Where any rank has an error, throws on every rank the one with the least
/// order (of equal ones, that of the lowest rank).
void throw_first(Communicator& communicator, const std::optional<Error>& own,
                 std::int64_t order);

}  // namespace kan::parallel
