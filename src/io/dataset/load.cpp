// From a source's rows to the three scaled sets: read, check, split, digest, scale. The
// table below is the one place that knows the sources.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tuple>
#include <utility>

#include "io/dataset/digest.hpp"
#include "io/dataset/scaling.hpp"
#include "io/dataset/source.hpp"
#include "io/dataset/split.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

struct SourceEntry {
  const char* name;
  ReadSource read;
};

// A new source: its file, its declaration in source.hpp, and a line here.
constexpr SourceEntry kSources[] = {
    {"function", read_function},
    {"hdf5", read_hdf5},
    {"csv", read_csv},
};

const SourceEntry& find_source(const std::string& name) {
  for (const SourceEntry& entry : kSources) {
    if (name == entry.name) return entry;
  }
  throw Error(Code::usage, fmt::format("data/source: '{}' is none of {}", name,
                                       fmt::join(data_sources(), ", ")));
}

bool is_file(const SetOptions& set) {
  return !set.file.empty() || !set.inputs.empty() || !set.targets.empty();
}

DataSet pick(const DataSet& from, const std::vector<std::int64_t>& indices) {
  DataSet out;
  out.rows = static_cast<std::int64_t>(indices.size());
  out.inputs = from.inputs;
  out.targets = from.targets;
  out.input_names = from.input_names;
  out.has_names = from.has_names;
  out.target_names = from.target_names;
  out.x.reserve(indices.size() * static_cast<std::size_t>(from.inputs));
  out.y.reserve(indices.size() * static_cast<std::size_t>(from.targets));
  out.row_id.reserve(indices.size());
  for (const std::int64_t index : indices) {
    const auto x = from.x.begin() + index * from.inputs;
    const auto y = from.y.begin() + index * from.targets;
    out.x.insert(out.x.end(), x, x + from.inputs);
    out.y.insert(out.y.end(), y, y + from.targets);
    out.row_id.push_back(from.row_id[static_cast<std::size_t>(index)]);
  }
  return out;
}

/// Splits the rows that the split column leaves for training; its test rows are set
/// apart.
void split_set(const SourceRows& rows, const DataOptions& options, Data& data) {
  std::vector<std::int64_t> open, test;
  for (std::int64_t n = 0; n < rows.set.rows; ++n) {
    const bool is_test =
        !rows.is_test.empty() && rows.is_test[static_cast<std::size_t>(n)];
    (is_test ? test : open).push_back(n);
  }
  if (open.empty()) {
    throw Error(Code::data,
                fmt::format("{}: every row has 1 in column '{}': no training rows",
                            options.file, options.split_column));
  }
  std::vector<std::int64_t> open_ids;
  open_ids.reserve(open.size());
  for (const std::int64_t n : open) {
    open_ids.push_back(rows.set.row_id[static_cast<std::size_t>(n)]);
  }
  Split split = split_rows(open_ids, options.validation.fraction, options.test.fraction,
                           options.seed);
  for (auto* part : {&split.train, &split.validation, &split.test}) {
    for (std::int64_t& n : *part) n = open[static_cast<std::size_t>(n)];
  }
  if (!rows.is_test.empty()) split.test = std::move(test);
  data.train = pick(rows.set, split.train);
  data.validation = pick(rows.set, split.validation);
  data.test = pick(rows.set, split.test);
}

}  // namespace

void check_options(const DataOptions& options, const DataShape& shape) {
  KAN_REQUIRE(shape.inputs > 0 && shape.targets > 0,
              "data need at least one input and target");
  KAN_REQUIRE(shape.grid_low < shape.grid_high,
              "network/grid_low must be less than grid_high");
  const std::string source = find_source(options.source).name;
  if (source != "function" && options.file.empty()) {
    throw Error(Code::usage,
                fmt::format("data/file: missing; source = {} needs one", source));
  }
  if (!options.split_column.empty() && source != "csv") {
    throw Error(Code::usage, "data/split_column: only CSV files have one; use data/test");
  }
  if (!options.split_column.empty() &&
      (is_file(options.test) || options.test.fraction != 0)) {
    throw Error(Code::usage,
                "data/split_column, data/test: both say which rows are for test; "
                "give one of them");
  }
  for (const auto& [set, key] :
       {std::pair(&options.validation, "validation"), std::pair(&options.test, "test")}) {
    if (set->fraction != 0 && is_file(*set)) {
      throw Error(Code::usage,
                  fmt::format("data/{0}: a fraction of the training rows has no "
                              "{0}_inputs or {0}_targets; give one or the other",
                              key));
    }
  }
  if (shape.classes > 0 && options.scale_targets != ScalingKind::none) {
    throw Error(Code::usage,
                "data/scale_targets: class labels are not scaled; set it to none");
  }
}

SourceRequest training_request(const DataOptions& options) {
  return {options.file,      options.inputs,       options.targets,
          options.row_range, options.split_column, ""};
}

void read_set_files(const DataOptions& options, const DataShape& shape, Data& data) {
  for (const auto& [set, key, out] :
       {std::tuple(&options.validation, "validation_", &data.validation),
        std::tuple(&options.test, "test_", &data.test)}) {
    if (!is_file(*set)) continue;
    const SourceRequest request{set->file.empty() ? options.file : set->file,
                                set->inputs.empty() ? options.inputs : set->inputs,
                                set->targets.empty() ? options.targets : set->targets,
                                RowRange{},
                                options.split_column,
                                key};
    SourceRows rows = find_source(options.source).read(options, shape, request);
    data.dropped += check_values(rows, options, shape, request.file);
    *out = std::move(rows.set);
  }
}

namespace {

/// Everything but the scaling.
Data load_unscaled(const DataOptions& options, const DataShape& shape) {
  check_options(options, shape);
  const SourceEntry& source = find_source(options.source);
  Data data;
  {
    SourceRows rows = source.read(options, shape, training_request(options));
    const std::string name = options.file.empty() ? "data/expressions" : options.file;
    data.dropped += check_values(rows, options, shape, name);
    split_set(rows, options, data);
  }
  read_set_files(options, shape, data);
  DataDigest digest;
  for (const DataSet* set : {&data.train, &data.validation, &data.test}) digest.add(*set);
  data.digest = digest.text();
  return data;
}

}  // namespace

void scale(Data& data, const Scaling& inputs, const Scaling& targets,
           const DataShape& shape) {
  const auto fits = [](const Scaling& scaling, int columns) {
    return scaling.scale.size() == static_cast<std::size_t>(columns) &&
           scaling.shift.size() == static_cast<std::size_t>(columns);
  };
  if (!fits(inputs, shape.inputs) || !fits(targets, shape.targets)) {
    throw Error(
        Code::checkpoint,
        fmt::format("the checkpoint scales {} inputs and {} targets, the network has {} "
                    "and {}; use the checkpoint of this network",
                    inputs.scale.size(), targets.scale.size(), shape.inputs,
                    shape.targets));
  }
  for (DataSet* set : {&data.train, &data.validation, &data.test}) {
    apply_scaling(inputs, set->x);
    apply_scaling(targets, set->y);
  }
  data.input_scaling = inputs;
  data.target_scaling = targets;
}

Data load(const DataOptions& options, const DataShape& shape) {
  Data data = load_unscaled(options, shape);
  const DataSet& train = data.train;
  const double low = shape.grid_low, high = shape.grid_high;
  const Scaling inputs = fit_scaling(options.scale_inputs, train.x, shape.inputs, low,
                                     high, train.input_names);
  const Scaling targets = fit_scaling(options.scale_targets, train.y, shape.targets, low,
                                      high, train.target_names);
  scale(data, inputs, targets, shape);
  return data;
}

Data load(const DataOptions& options, const DataShape& shape,
          const Scaling& input_scaling, const Scaling& target_scaling) {
  Data data = load_unscaled(options, shape);
  scale(data, input_scaling, target_scaling, shape);
  return data;
}

std::vector<std::string> data_sources() {
  std::vector<std::string> names;
  for (const SourceEntry& entry : kSources) names.emplace_back(entry.name);
  return names;
}

}  // namespace kan::io
