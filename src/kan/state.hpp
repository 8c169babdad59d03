// What a training run is made of besides code: the state that a checkpoint holds and a
// restart continues from. Arrays are on the host in the order of the files: grid
// (in, G+2k+1), coef (in, out, G+k), scale_base (in, out), scale_spline (in, out).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kan/options.hpp"

namespace kan {

/// Sizes of one layer.
struct LayerShape {
  int in = 0, out = 0;
  int grid = 5;   ///< G, intervals on [lo, hi]
  int order = 3;  ///< k, degree of the splines
  Base base = Base::silu;
};

/// One set of per-layer arrays: parameters, or a moment of the optimizer.
/// scale_base is empty where the base is none, scale_spline where it is folded.
template <class T>
struct LayerArrays {
  std::vector<T> coef;          ///< (in, out, G+k)
  std::vector<T> scale_base;    ///< (in, out)
  std::vector<T> scale_spline;  ///< (in, out)
};

/// Where a run stands. position counts rows of the current epoch already used; the
/// epoch_* members are sums over those rows, so that an epoch's figures survive a
/// restart.
struct Progress {
  std::int64_t step = 0;   ///< updates done
  std::int64_t epoch = 0;  ///< epochs completed
  std::int64_t position = 0;
  std::uint64_t seed = 1;
  std::int64_t samples_seen = 0;
  std::int64_t optimizer_step = 0;
  double elapsed = 0;  ///< seconds of training over all launches
  double best_loss = std::numeric_limits<double>::infinity();
  std::int64_t best_epoch = -1;
  std::int64_t history_rows = 0;
  double epoch_loss_sum = 0;  ///< sum over rows of the row losses of this epoch so far
  std::int64_t epoch_correct = 0;
  std::vector<std::int64_t> epoch_outside;  ///< per layer: inputs outside [lo, hi]
};

/// y_scaled = (y - shift) / scale, per column.
struct Scaling {
  std::vector<double> scale, shift;
};

/// Everything a checkpoint holds of a network and its training.
template <class T>
struct TrainingState {
  std::vector<LayerShape> shape;
  bool scale_trained = false;
  std::vector<std::vector<double>> grid;  ///< per layer (in, G+2k+1)
  std::vector<LayerArrays<T>> parameters;
  std::vector<LayerArrays<T>> first_moment;   ///< empty where the optimizer has none
  std::vector<LayerArrays<T>> second_moment;  ///< empty where the optimizer has none
  Progress progress;
  Scaling input_scaling, target_scaling;
  std::string data_digest;  ///< of the training rows, so that a restart notices others
  std::string engine;       ///< name of the kernels that trained it, e.g. "tile/host"
  std::int64_t shards = 1;  ///< leaves of the gradient sum (numerics: V)
  std::int64_t vector_bytes = 0;
};

/// One row of the step history: the update made from state `step`.
struct StepRecord {
  std::int64_t step = 0, epoch = 0;
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double samples_per_second = 0, elapsed = 0;
};

/// One row of the epoch history. NaN where a value does not exist (no validation set,
/// no classes).
struct EpochRecord {
  std::int64_t epoch = 0;
  double train_loss = 0, train_accuracy = 0, validation_loss = 0, validation_accuracy = 0;
  std::vector<double> outside;  ///< per layer: share of inputs outside [lo, hi]
};

}  // namespace kan
