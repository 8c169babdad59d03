// Results that nothing restarts from: predictions (/prediction (rows, out) and /target,
// in original units) and parameters (/network of a checkpoint, in the same layout).
// Written atomically, like all else. Errors: Code::output.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/hdf5.hpp"
#include "io/info.hpp"
#include "kan/state.hpp"

namespace kan::io {

/// prediction: row-major (rows, out); target: (rows, targets), one column for classes.
template <class T>
void write_prediction(const std::string& path, const RunInfo& run, const Moment& moment,
                      std::span<const T> prediction, std::span<const T> target,
                      std::int64_t rows, std::int64_t out);

/// The same file written some rows at a time, for more rows than memory has room for:
/// under a temporary name, which finish() gives up once all is on the disk.
template <class T>
class PredictionFile {
 public:
  PredictionFile(const std::string& path, const RunInfo& run, const Moment& moment,
                 std::int64_t rows, std::int64_t out, std::int64_t targets);
  ~PredictionFile();
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;
  /// The next rows: prediction (rows, out), target (rows, targets).
  void add(std::int64_t rows, std::span<const T> prediction, std::span<const T> target);
  void finish();

 private:
  std::string path_, temporary_;
  std::int64_t written_ = 0, rows_;
  Hdf5File file_;
};

extern template class PredictionFile<float>;
extern template class PredictionFile<double>;

template <class T>
void write_parameters(const std::string& path, const RunInfo& run, Reason reason,
                      const TrainingState<T>& state);

}  // namespace kan::io
