// Means and variances are two passes of sums with Neumaier's compensation, so that
// columns far from zero keep their digits.
#include "io/dataset/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kan/error.hpp"

namespace kan::io {

namespace {

/// Sum with a running compensation of the rounding errors (Neumaier 1974).
class Sum {
 public:
  void add(double value) {
    const double next = sum_ + value;
    rest_ +=
        std::abs(sum_) >= std::abs(value) ? (sum_ - next) + value : (value - next) + sum_;
    sum_ = next;
  }
  double value() const { return sum_ + rest_; }

 private:
  double sum_ = 0, rest_ = 0;
};

/// One column of a row-major array.
struct Column {
  const std::vector<double>& values;
  std::size_t columns, column;
  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t n = column; n < values.size(); n += columns) visit(values[n]);
  }
};

struct Line {
  double scale = 1, shift = 0;
};

Line standard(const Column& column, std::size_t rows) {
  Sum sum;
  column.each([&](double value) { sum.add(value); });
  const double mean = sum.value() / static_cast<double>(rows);
  Sum squares;
  column.each([&](double value) { squares.add((value - mean) * (value - mean)); });
  return {std::sqrt(squares.value() / static_cast<double>(rows)), mean};
}

Line minmax(double least, double most, double low, double high) {
  const double middle = 0.5 * (low + high);
  double scale = (0.5 * most - 0.5 * least) / (0.5 * (high - low));
  Line line;
  for (int n = 0; n < 16; ++n) {
    line = {scale, 0.5 * least + 0.5 * most - middle * scale};
    const bool inside = (least - line.shift) / line.scale >= low &&
                        (most - line.shift) / line.scale <= high;
    if (inside) break;
    scale = std::nextafter(scale, HUGE_VAL);
  }
  return line;
}

}  // namespace

Scaling fit_scaling(ScalingKind kind, const std::vector<double>& values, int columns,
                    double low, double high, const std::vector<std::string>& names) {
  const auto count = static_cast<std::size_t>(columns);
  Scaling out;
  out.scale.assign(count, 1.0);
  out.shift.assign(count, 0.0);
  if (kind == ScalingKind::none || values.empty()) return out;
  for (std::size_t c = 0; c < count; ++c) {
    const Column column{values, count, c};
    double least = HUGE_VAL, most = -HUGE_VAL;
    column.each([&](double value) {
      least = std::min(least, value);
      most = std::max(most, value);
    });
    Line line;
    if (least == most) {
      line = {1.0, kind == ScalingKind::minmax ? least - 0.5 * (low + high) : least};
    } else if (kind == ScalingKind::minmax) {
      line = minmax(least, most, low, high);
    } else {
      line = standard(column, values.size() / count);
    }
    if (!std::isfinite(line.scale) || !std::isfinite(line.shift) || line.scale == 0) {
      throw Error(Code::data,
                  fmt::format("data/scale_inputs, data/scale_targets: column '{}' "
                              "({} to {}) cannot be scaled in double precision",
                              names[c], least, most));
    }
    out.scale[c] = line.scale;
    out.shift[c] = line.shift;
  }
  return out;
}

void apply_scaling(const Scaling& scaling, std::vector<double>& values) {
  const std::size_t columns = scaling.scale.size();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::size_t c = n % columns;
    values[n] = (values[n] - scaling.shift[c]) / scaling.scale[c];
  }
}

}  // namespace kan::io
