// One training run from a session: data, network, training loop, outputs, report.
#pragma once

#include "run/session.hpp"

namespace kan::run {

/// Collective. Returns the exit code: done or stopped. T as run/precision says.
template <class T>
int train(Session& session);

}  // namespace kan::run
