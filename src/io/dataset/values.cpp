// What a value must be: finite, and a whole number of a class where it is a label.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/dataset/source.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

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

}  // namespace

std::optional<BadValue> find_bad_value(const double* x, const double* y,
                                       const DataShape& shape) {
  for (int c = 0; c < shape.inputs + shape.targets; ++c) {
    const bool target = c >= shape.inputs, label = target && shape.classes > 0;
    const double value = target ? y[c - shape.inputs] : x[c];
    if (std::isfinite(value) && !label) continue;
    std::string wrong = objection(value, label, shape.classes);
    if (!wrong.empty()) return BadValue{c, value, std::move(wrong)};
  }
  return {};
}

std::int64_t check_values(SourceRows& rows, const DataOptions& options,
                          const DataShape& shape, const std::string& name) {
  DataSet& set = rows.set;
  const auto inputs = static_cast<std::size_t>(set.inputs);
  const auto targets = static_cast<std::size_t>(set.targets);
  std::size_t kept = 0;
  for (std::size_t r = 0; r < static_cast<std::size_t>(set.rows); ++r) {
    const auto bad = find_bad_value(&set.x[r * inputs], &set.y[r * targets], shape);
    const bool drop =
        bad && !std::isfinite(bad->value) && options.nonfinite == Nonfinite::drop;
    if (bad && !drop) {
      const std::string advice =
          std::isfinite(bad->value)
              ? "correct it, or network/widths"
              : "correct it, or leave such rows out with data/nonfinite = drop";
      throw Error(
          Code::data,
          fmt::format("{} {}; {}", rows.where(static_cast<std::int64_t>(r), bad->column),
                      bad->objection, advice));
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

}  // namespace kan::io
