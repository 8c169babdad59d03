// Typed options of the library. The deck fills them (src/io/options.cpp); programs that
// use the library without a deck fill them by hand. Defaults are those of the manual.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/algorithm.hpp"

namespace kan {

enum class Base { silu, identity, none };
enum class SplineScale { folded, trained };
enum class Initialization { pykan, efficient_kan };
enum class Kernels { automatic, host, team };
/// How a batch runs through the layers: rows in small tiles through all of them, or many
/// rows through one after another.
enum class EngineKind { automatic, tile, layer };

/// Shape of a network. widths has L+1 entries; grid, order and base hold one entry for
/// all layers or one per layer.
struct NetworkOptions {
  std::vector<int> widths;
  std::vector<int> grid{5};
  std::vector<int> order{3};
  std::vector<Base> base{Base::silu};
  double grid_low = -1, grid_high = 1;
  SplineScale spline_scale = SplineScale::folded;
  Initialization initialization = Initialization::pykan;
  EngineKind engine = EngineKind::automatic;
  Kernels kernels = Kernels::automatic;
};

enum class LossKind { mse, mae, cross_entropy };
enum class OptimizerKind { adam, adamw, sgd };

struct OptimizerOptions {
  OptimizerKind type = OptimizerKind::adam;
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip_norm = 0;  ///< 0: off
};

enum class ScheduleKind { constant, step, cosine };

/// warmup and step_size in steps (updates); factor: what step multiplies by.
struct ScheduleOptions {
  ScheduleKind type = ScheduleKind::constant;
  std::int64_t warmup = 0;
  std::int64_t step_size = 0;
  double factor = 0.1;
};

/// What an average of local SGD does with the optimizer's moments.
enum class Moments { average, reset };

struct TrainOptions {
  LossKind loss = LossKind::mse;
  std::int64_t batch = 512;     ///< rows of one piece of an update, over all ranks
  std::int64_t accumulate = 1;  ///< pieces per update
  std::int64_t epochs = -1;     ///< -1: no limit
  std::int64_t steps = -1;      ///< -1: no limit
  std::int64_t warmup_steps = 0;
  std::uint64_t seed = 1;
  bool shuffle = true;
  bool reproducible = false;
  std::int64_t shard_rows = 64;
  std::int64_t max_shards = 64;
  std::int64_t average_every = 1;   ///< updates; 1: every update is of all ranks
  std::int64_t average_warmup = 0;  ///< first updates, of all ranks in any case
  Moments moments = Moments::average;
  std::int64_t digest_every = 1000;  ///< updates between two comparisons of ranks; 0: off
  /// Updates by which the host may read outcomes late; -1: by the backend. Not where sums
  /// over ranks are reproducible.
  int late = -1;
  /// Whether updates with late outcomes are recorded as a graph of kernels; none: where
  /// kernels run on a device.
  std::optional<bool> recorded;
  parallel::Algorithm algorithm = parallel::Algorithm::automatic;
  parallel::MessageLayout message = parallel::MessageLayout::flat;
  bool diagnose = false;      ///< a barrier before each sum tells waiting from transfer
  double target_loss = 0;     ///< 0: off
  std::int64_t patience = 0;  ///< epochs; 0: off
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
};

}  // namespace kan
