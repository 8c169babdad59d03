// Results that nothing restarts from: predictions (/prediction (rows, out) and /target,
// in original units) and parameters (/network of a checkpoint, in the same layout).
// Written atomically, like all else. Errors: Code::output.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/info.hpp"
#include "kan/state.hpp"

namespace kan::io {

/// prediction: row-major (rows, out); target: (rows, targets), one column for classes.
template <class T>
void write_prediction(const std::string& path, const RunInfo& run, const Moment& moment,
                      std::span<const T> prediction, std::span<const T> target,
                      std::int64_t rows, std::int64_t out);

template <class T>
void write_parameters(const std::string& path, const RunInfo& run, Reason reason,
                      const TrainingState<T>& state);

}  // namespace kan::io
