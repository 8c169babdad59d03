// Means and variances are two passes of sums with Neumaier's compensation, so that
// columns far from zero keep their digits; parts of a column are put together by the
// formula of Chan, Golub and LeVeque (1979).
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

std::vector<ColumnStatistics> column_statistics(const std::vector<double>& values,
                                                int columns) {
  std::vector<ColumnStatistics> out(static_cast<std::size_t>(columns));
  for (std::size_t c = 0; c < out.size(); ++c) {
    ColumnStatistics& statistics = out[c];
    const Column column{values, out.size(), c};
    Sum sum, squares;
    column.each([&](double value) {
      statistics.least = std::min(statistics.least, value);
      statistics.most = std::max(statistics.most, value);
      sum.add(value);
    });
    statistics.rows = static_cast<double>(values.size() / out.size());
    if (statistics.rows == 0) continue;
    statistics.mean = sum.value() / statistics.rows;
    column.each([&](double value) {
      squares.add((value - statistics.mean) * (value - statistics.mean));
    });
    statistics.squares = squares.value();
  }
  return out;
}

void ColumnStatistics::add(const ColumnStatistics& other) {
  if (other.rows == 0) return;
  const double all = rows + other.rows, step = other.mean - mean;
  least = std::min(least, other.least);
  most = std::max(most, other.most);
  mean += step * (other.rows / all);
  squares += other.squares + step * step * (rows * (other.rows / all));
  rows = all;
}

Scaling fit_scaling(ScalingKind kind, const std::vector<ColumnStatistics>& columns,
                    double low, double high, const std::vector<std::string>& names) {
  Scaling out;
  out.scale.assign(columns.size(), 1.0);
  out.shift.assign(columns.size(), 0.0);
  if (kind == ScalingKind::none) return out;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto& [rows, least, most, mean, squares] = columns[c];
    if (rows == 0) continue;
    Line line{std::sqrt(squares / rows), mean};
    if (least == most) {
      line = {1.0, kind == ScalingKind::minmax ? least - 0.5 * (low + high) : least};
    } else if (kind == ScalingKind::minmax) {
      line = minmax(least, most, low, high);
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

Scaling fit_scaling(ScalingKind kind, const std::vector<double>& values, int columns,
                    double low, double high, const std::vector<std::string>& names) {
  const bool needed = kind != ScalingKind::none;
  return fit_scaling(
      kind,
      needed ? column_statistics(values, columns)
             : std::vector<ColumnStatistics>(static_cast<std::size_t>(columns)),
      low, high, names);
}

void apply_scaling(const Scaling& scaling, std::vector<double>& values) {
  const std::size_t columns = scaling.scale.size();
  for (std::size_t n = 0; n < values.size(); ++n) {
    const std::size_t c = n % columns;
    values[n] = (values[n] - scaling.shift[c]) / scaling.scale[c];
  }
}

}  // namespace kan::io
