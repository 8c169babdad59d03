// From a source's rows to the three scaled sets: read, check, split, digest, scale. The
// table below is the one place that knows the sources.
#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

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

/// Empty where a value is good, else what is wrong with it.
std::string objection(double value, bool label, int classes) {
  if (std::isnan(value)) return "is missing or not a number (nan)";
  if (std::isinf(value)) return "is infinite";
  if (!label) return "";
  if (value != std::floor(value)) {
    return fmt::format("is {}; class labels are whole numbers from 0 to {}", value,
                       classes - 1);
  }
  if (value < 0 || value >= classes) {
    return fmt::format("is {}; class labels go from 0 to {} (the network has {} outputs)",
                       value, classes - 1, classes);
  }
  return "";
}

/// Checks every value; leaves rows with non-finite ones out where that is asked for.
std::int64_t check_values(SourceRows& rows, const DataOptions& options,
                          const DataShape& shape, const std::string& name) {
  DataSet& set = rows.set;
  const auto inputs = static_cast<std::size_t>(set.inputs);
  const auto targets = static_cast<std::size_t>(set.targets);
  std::size_t kept = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(set.rows); ++r) {
    bool drop = false;
    for (std::size_t c = 0; c < inputs + targets; ++c) {
      const double value =
          c < inputs ? set.x[r * inputs + c] : set.y[r * targets + c - inputs];
      const bool label = shape.classes > 0 && c >= inputs;
      if (std::isfinite(value) && !label) continue;
      const std::string wrong = objection(value, label, shape.classes);
      if (wrong.empty()) continue;
      if (!std::isfinite(value) && options.nonfinite == Nonfinite::drop) {
        drop = true;
        break;
      }
      const std::string advice =
          std::isfinite(value) ? "correct it, or network/widths"
                               : "correct it, or leave such rows out with data/nonfinite "
                                 "= drop";
      throw Error(Code::data, fmt::format("{} {}; {}",
                                          rows.where(static_cast<std::int64_t>(r),
                                                     static_cast<int>(c)),
                                          wrong, advice));
    }
    if (drop) continue;
    if (kept != r) {
      std::copy_n(set.x.begin() + static_cast<std::ptrdiff_t>(r * inputs), inputs,
                  set.x.begin() + static_cast<std::ptrdiff_t>(kept * inputs));
      std::copy_n(set.y.begin() + static_cast<std::ptrdiff_t>(r * targets), targets,
                  set.y.begin() + static_cast<std::ptrdiff_t>(kept * targets));
      set.row_id[kept] = set.row_id[r];
      if (!rows.is_test.empty()) rows.is_test[kept] = rows.is_test[r];
    }
    ++kept;
  }
  const std::int64_t dropped = set.rows - static_cast<std::int64_t>(kept);
  if (kept == 0) {
    throw Error(Code::data,
                fmt::format("{}: {}", name,
                            dropped > 0 ? "every row has a missing or non-finite value"
                                        : "there are no rows"));
  }
  set.rows = static_cast<std::int64_t>(kept);
  set.x.resize(kept * inputs);
  set.y.resize(kept * targets);
  set.row_id.resize(kept);
  if (!rows.is_test.empty()) rows.is_test.resize(kept);
  return dropped;
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

std::string digest_of(const Data& data) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(
      XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  for (const DataSet* set : {&data.train, &data.validation, &data.test}) {
    const std::int64_t sizes[] = {set->rows, set->inputs, set->targets};
    XXH3_128bits_update(state.get(), sizes, sizeof sizes);
    XXH3_128bits_update(state.get(), set->x.data(), set->x.size() * sizeof(double));
    XXH3_128bits_update(state.get(), set->y.data(), set->y.size() * sizeof(double));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

/// Everything but the scaling.
Data load_unscaled(const DataOptions& options, const DataShape& shape) {
  check_options(options, shape);
  const SourceEntry& source = find_source(options.source);
  Data data;
  SourceRequest request{options.file,      options.inputs,       options.targets,
                        options.row_range, options.split_column, ""};
  {
    SourceRows rows = source.read(options, shape, request);
    const std::string name = options.file.empty() ? "data/expressions" : options.file;
    data.dropped += check_values(rows, options, shape, name);
    split_set(rows, options, data);
  }
  for (const auto& [set, key, out] :
       {std::tuple(&options.validation, "validation_", &data.validation),
        std::tuple(&options.test, "test_", &data.test)}) {
    if (!is_file(*set)) continue;
    request = {set->file.empty() ? options.file : set->file,
               set->inputs.empty() ? options.inputs : set->inputs,
               set->targets.empty() ? options.targets : set->targets,
               RowRange{},
               options.split_column,
               key};
    SourceRows rows = source.read(options, shape, request);
    data.dropped += check_values(rows, options, shape, request.file);
    *out = std::move(rows.set);
  }
  data.digest = digest_of(data);
  return data;
}

void scale(Data& data, const Scaling& inputs, const Scaling& targets) {
  for (DataSet* set : {&data.train, &data.validation, &data.test}) {
    apply_scaling(inputs, set->x);
    apply_scaling(targets, set->y);
  }
  data.input_scaling = inputs;
  data.target_scaling = targets;
}

}  // namespace

Data load(const DataOptions& options, const DataShape& shape) {
  Data data = load_unscaled(options, shape);
  const DataSet& train = data.train;
  const double low = shape.grid_low, high = shape.grid_high;
  const Scaling inputs = fit_scaling(options.scale_inputs, train.x, shape.inputs, low,
                                     high, train.input_names);
  const Scaling targets = fit_scaling(options.scale_targets, train.y, shape.targets, low,
                                      high, train.target_names);
  scale(data, inputs, targets);
  return data;
}

Data load(const DataOptions& options, const DataShape& shape,
          const Scaling& input_scaling, const Scaling& target_scaling) {
  const auto fits = [](const Scaling& scaling, int columns) {
    return scaling.scale.size() == static_cast<std::size_t>(columns) &&
           scaling.shift.size() == static_cast<std::size_t>(columns);
  };
  if (!fits(input_scaling, shape.inputs) || !fits(target_scaling, shape.targets)) {
    throw Error(
        Code::checkpoint,
        fmt::format("the checkpoint scales {} inputs and {} targets, the network has {} "
                    "and {}; use the checkpoint of this network",
                    input_scaling.scale.size(), target_scaling.scale.size(), shape.inputs,
                    shape.targets));
  }
  Data data = load_unscaled(options, shape);
  scale(data, input_scaling, target_scaling);
  return data;
}

std::vector<std::string> data_sources() {
  std::vector<std::string> names;
  for (const SourceEntry& entry : kSources) names.emplace_back(entry.name);
  return names;
}

}  // namespace kan::io
