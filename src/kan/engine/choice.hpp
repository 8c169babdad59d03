// Which engine trains a network: by sizes where they settle it, else by a short
// measurement of this machine.
#pragma once

#include <string>

#include "kan/engine/engine.hpp"
#include "parallel/communicator.hpp"

namespace kan {

struct EngineChoice {
  EngineKind kind = EngineKind::tile;
  std::string why;  ///< for the log; "" where there was nothing to choose
};

/// The engine named in a checkpoint ("layer/host"), or automatic.
EngineKind engine_kind(const std::string& name);

/// Collective. Tile for kernels of GPUs, and where the table of coefficients fits a
/// cache; else what takes less time for the gradient of `rows` rows on rank 0 while all
/// ranks compute. In reproducible mode sizes alone decide: layer where a table takes more
/// than 256 MiB, since the tile engine holds some a thread.
template <class T>
EngineChoice choose_engine(const Exec& exec, const Network<T>& network, Kernels kernels,
                           LossKind loss, bool reproducible, std::int64_t rows,
                           parallel::Communicator& communicator);

}  // namespace kan
