// A trained network on a data set: predictions and metrics, no training.
#pragma once

#include "run/session.hpp"

namespace kan::run {

/// Collective. All rows of data/source in their order (fractions split nothing off), with
/// the scaling of the checkpoint. Returns the exit code.
template <class T>
int evaluate(Session& session);

}  // namespace kan::run
