// Predictions and parameters as HDF5 files.
#include "io/result_files.hpp"

#include <unistd.h>

#include "io/atomic_file.hpp"
#include "io/checkpoint_layout.hpp"

namespace kan::io {

namespace {

template <class T>
void make_prediction(Hdf5File& file, const RunInfo& run, const Moment& moment,
                     std::int64_t rows, std::int64_t out, std::int64_t targets) {
  write_info(file, run, moment);
  file.create_dataset<T>("/prediction", {rows, out}, {.fletcher32 = true});
  describe(file, "/prediction", "that of the target", "row, out",
           "outputs of the network in the order of the rows; for classes one number per "
           "class, the largest is the predicted class");
  file.create_dataset<T>("/target", {rows, targets}, {.fletcher32 = true});
  describe(file, "/target", "that of the data", "row, target",
           "targets of the data set, or class labels");
}

}  // namespace

template <class T>
void write_prediction(const std::string& path, const RunInfo& run, const Moment& moment,
                      std::span<const T> prediction, std::span<const T> target,
                      std::int64_t rows, std::int64_t out) {
  // Class labels are one column, whatever the number of outputs.
  const std::int64_t columns =
      rows > 0 ? static_cast<std::int64_t>(target.size()) / rows : out;
  KAN_REQUIRE(static_cast<std::int64_t>(prediction.size()) == rows * out &&
                  static_cast<std::int64_t>(target.size()) == rows * columns,
              "write_prediction: arrays are not whole rows");
  Hdf5File file = Hdf5File::create_in_memory(path, Code::output);
  make_prediction<T>(file, run, moment, rows, out, columns);
  file.write_rows("/prediction", prediction.data(), 0, rows);
  file.write_rows("/target", target.data(), 0, rows);
  std::vector<std::byte> bytes = file.close_to_bytes();
  write_sealed(path, bytes);
}

template <class T>
PredictionFile<T>::PredictionFile(const std::string& path, const RunInfo& run,
                                  const Moment& moment, std::int64_t rows,
                                  std::int64_t out, std::int64_t targets)
    : path_(path),
      temporary_(path + std::string(kTemporarySuffix)),
      rows_(rows),
      file_(Hdf5File::create(temporary_, Code::output)) {
  make_prediction<T>(file_, run, moment, rows, out, targets);
}

template <class T>
PredictionFile<T>::~PredictionFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

template <class T>
void PredictionFile<T>::add(std::int64_t rows, std::span<const T> prediction,
                            std::span<const T> target) {
  file_.write_rows("/prediction", prediction.data(), written_, written_ + rows);
  file_.write_rows("/target", target.data(), written_, written_ + rows);
  written_ += rows;
}

template <class T>
void PredictionFile<T>::finish() {
  KAN_REQUIRE(written_ == rows_, "PredictionFile: rows are missing");
  file_.close();
  AppendFile(temporary_).sync();
  rename_file(temporary_, path_);
  temporary_.clear();
  sync_directory(directory_of(path_));
}

template class PredictionFile<float>;
template class PredictionFile<double>;

template <class T>
void write_parameters(const std::string& path, const RunInfo& run, Reason reason,
                      const TrainingState<T>& state) {
  const Progress& progress = state.progress;
  Hdf5File file = Hdf5File::create_in_memory(path, Code::output);
  write_info(
      file, run,
      {progress.step, progress.epoch, progress.samples_seen, progress.elapsed, reason});
  detail::WriteArchive archive(file);
  detail::visit_network(archive, state);
  std::vector<std::byte> bytes = file.close_to_bytes();
  write_sealed(path, bytes);
}

template void write_prediction(const std::string&, const RunInfo&, const Moment&,
                               std::span<const float>, std::span<const float>,
                               std::int64_t, std::int64_t);
template void write_prediction(const std::string&, const RunInfo&, const Moment&,
                               std::span<const double>, std::span<const double>,
                               std::int64_t, std::int64_t);
template void write_parameters(const std::string&, const RunInfo&, Reason,
                               const TrainingState<float>&);
template void write_parameters(const std::string&, const RunInfo&, Reason,
                               const TrainingState<double>&);

}  // namespace kan::io
