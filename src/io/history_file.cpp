// Columns are gathered from the records through one table of members, which serves
// writing and reading, so that a new column is one line.
#include "io/history_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "io/atomic_file.hpp"
#include "io/run_directory.hpp"

namespace kan::io {

namespace {

template <class Record, class Value>
struct Column {
  const char* name;
  Value Record::* member;
  const char* units;
  const char* description;
};

constexpr Column<StepRecord, std::int64_t> kStepIntegers[] = {
    {"/step", &StepRecord::step, "1", "updates done before this one"},
    {"/step_epoch", &StepRecord::epoch, "1", "epochs completed before this update"}};
constexpr Column<StepRecord, double> kStepReals[] = {
    {"/loss", &StepRecord::loss, "1", "loss of the batch, before the update"},
    {"/learning_rate", &StepRecord::learning_rate, "1", "of this update"},
    {"/gradient_norm", &StepRecord::gradient_norm, "1", "2-norm, before clipping"},
    {"/samples_per_second", &StepRecord::samples_per_second, "1/s", "over all ranks"},
    {"/elapsed", &StepRecord::elapsed, "s", "seconds of training over all launches"}};
constexpr Column<EpochRecord, std::int64_t> kEpochIntegers[] = {
    {"/epoch/epoch", &EpochRecord::epoch, "1", "number of the epoch, from 0"}};
constexpr Column<EpochRecord, double> kEpochReals[] = {
    {"/epoch/train_loss", &EpochRecord::train_loss, "1",
     "mean over the rows as met during the epoch"},
    {"/epoch/train_accuracy", &EpochRecord::train_accuracy, "1",
     "share of rows, as met during the epoch; nan where there are no classes"},
    {"/epoch/validation_loss", &EpochRecord::validation_loss, "1",
     "after the epoch; nan where there is no validation set"},
    {"/epoch/validation_accuracy", &EpochRecord::validation_accuracy, "1",
     "share of rows, after the epoch; nan where there are no classes"}};

/// Writes one column; `value` takes a record to a number.
template <class Value, class Record, class Get>
void write_column(Hdf5File& file, const std::string& name,
                  const std::vector<Record>& records, Get value, const std::string& units,
                  const std::string& description) {
  std::vector<Value> values;
  values.reserve(records.size());
  for (const Record& record : records) values.push_back(value(record));
  file.write(name, values, {static_cast<std::int64_t>(values.size())},
             {.fletcher32 = true});
  describe(file, name, units, "row", description);
}

template <class Record, class Value, std::size_t kCount>
void write_columns(Hdf5File& file, const std::vector<Record>& records,
                   const Column<Record, Value> (&columns)[kCount]) {
  for (const auto& column : columns) {
    write_column<Value>(
        file, column.name, records,
        [&](const Record& record) { return record.*column.member; }, column.units,
        column.description);
  }
}

/// Reads one column; `store` gets (record, value). All columns of a table are equally
/// long.
template <class Value, class Record, class Store>
void read_column(const Hdf5File& file, const std::string& name,
                 std::vector<Record>& records, Store store) {
  const std::vector<Value> values =
      file.read<Value>(name, {static_cast<std::int64_t>(records.size())});
  for (std::size_t n = 0; n < values.size(); ++n) store(records[n], values[n]);
}

template <class Record, class Value, std::size_t kCount>
void read_columns(const Hdf5File& file, std::vector<Record>& records,
                  const Column<Record, Value> (&columns)[kCount]) {
  for (const auto& column : columns) {
    read_column<Value>(file, column.name, records, [&](Record& record, Value value) {
      record.*column.member = value;
    });
  }
}

std::string outside_name(int layer) {
  return fmt::format("/epoch/layer{}_outside", layer);
}

/// Number of rows of a table, from its first column.
std::size_t row_count(const Hdf5File& file, const char* column) {
  const std::vector<std::int64_t> shape = file.info(column).shape;
  return shape.size() == 1 ? static_cast<std::size_t>(shape[0]) : 0;
}

HistoryRows read_columns_of(const Hdf5File& file) {
  HistoryRows rows;
  rows.first_step = file.read_int_attribute("/", "first_step");
  rows.end_step = file.read_int_attribute("/", "end_step");
  rows.layers = static_cast<int>(file.read_int_attribute("/", "layers"));
  rows.steps.resize(row_count(file, kStepIntegers[0].name));
  rows.epochs.resize(row_count(file, kEpochIntegers[0].name));
  read_columns(file, rows.steps, kStepIntegers);
  read_columns(file, rows.steps, kStepReals);
  read_columns(file, rows.epochs, kEpochIntegers);
  read_columns(file, rows.epochs, kEpochReals);
  for (int layer = 0; layer < rows.layers; ++layer) {
    read_column<double>(
        file, outside_name(layer), rows.epochs,
        [](EpochRecord& record, double value) { record.outside.push_back(value); });
  }
  return rows;
}

}  // namespace

bool HistoryRows::cut(std::int64_t step, std::int64_t epoch) {
  const std::size_t before = size();
  const bool shorter = end_step > step;
  std::erase_if(steps, [&](const StepRecord& row) { return row.step >= step; });
  std::erase_if(epochs, [&](const EpochRecord& row) { return row.epoch >= epoch; });
  end_step = std::min(end_step, step);
  return shorter || size() != before;
}

void write_history_file(const std::string& path, const HistoryRows& rows,
                        const RunInfo& run, const Moment& moment) {
  Hdf5File file = Hdf5File::create_in_memory(path, Code::output);
  write_info(file, run, moment);
  file.write_attribute("/", "first_step", rows.first_step);
  file.write_attribute("/", "end_step", rows.end_step);
  file.write_attribute("/", "layers", rows.layers);
  write_columns(file, rows.steps, kStepIntegers);
  write_columns(file, rows.steps, kStepReals);
  write_columns(file, rows.epochs, kEpochIntegers);
  write_columns(file, rows.epochs, kEpochReals);
  for (int layer = 0; layer < rows.layers; ++layer) {
    const std::size_t l = static_cast<std::size_t>(layer);
    write_column<double>(
        file, outside_name(layer), rows.epochs,
        [&](const EpochRecord& record) {
          return l < record.outside.size() ? record.outside[l] : 0.0;
        },
        "1", "share of this layer's inputs outside its grid");
  }
  std::vector<std::byte> bytes = file.close_to_bytes();
  write_sealed(path, bytes);
}

HistoryRows read_history_file(const std::string& path) {
  try {
    const std::vector<std::byte> bytes = read_sealed(path);
    return read_columns_of(Hdf5File::open_bytes(bytes, path, Code::checkpoint));
  } catch (const Error& error) {
    throw Error(Code::checkpoint, error.what());
  } catch (const std::exception& error) {
    throw Error(Code::checkpoint,
                fmt::format("{} cannot be read: {}", path, error.what()));
  }
}

HistoryRows join_segments(
    const std::vector<std::pair<std::int64_t, std::string>>& files) {
  HistoryRows all;
  for (std::size_t n = 0; n < files.size(); ++n) {
    HistoryRows rows = read_history_file(files[n].second);
    if (n == 0) {
      all = std::move(rows);
      continue;
    }
    const std::int64_t epoch = rows.epochs.empty() ? INT64_MAX : rows.epochs[0].epoch;
    all.cut(rows.first_step, epoch);
    all.end_step = rows.end_step;
    all.layers = std::max(all.layers, rows.layers);
    std::move(rows.steps.begin(), rows.steps.end(), std::back_inserter(all.steps));
    std::move(rows.epochs.begin(), rows.epochs.end(), std::back_inserter(all.epochs));
  }
  return all;
}

HistoryRows read_history(const std::string& directory, const std::string& name) {
  const std::string joined = directory + "/" + name + ".hst.h5";
  struct stat about{};
  if (::stat(joined.c_str(), &about) == 0) return read_history_file(joined);
  return join_segments(numbered_files(directory, name, ".hst.", ".h5", Code::checkpoint));
}

}  // namespace kan::io
