#include "kan/network.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kan/error.hpp"

namespace kan {

std::vector<double> uniform_knots(double low, double high, int grid, int order) {
  std::vector<double> t(grid + 2 * order + 1);
  const double step = (high - low) / grid;
  for (int j = 0; j < grid; ++j) t[order + j] = low + j * step;
  t[order + grid] = high;
  // One step after another, as PyKAN extends its grid: the same bits.
  for (int j = order; j > 0; --j) t[j - 1] = t[j] - step;
  for (int j = order + grid; j + 1 < int(t.size()); ++j) t[j + 1] = t[j] + step;
  return t;
}

template <class T>
Network<T>::Network(Shape shape, double low, double high)
    : shape_(std::move(shape)),
      parameters_("kan::Network::parameters", shape_.parameters()) {
  KAN_REQUIRE(low < high, "network: grid_low must be below grid_high");
  for (const LayerShape& s : shape_.all()) {
    const std::vector<double> row = uniform_knots(low, high, s.grid, s.order);
    Knots knots;
    for (int i = 0; i < s.in; ++i)
      knots.values.insert(knots.values.end(), row.begin(), row.end());
    knots_.push_back(std::move(knots));
  }
}

template <class T>
void Network<T>::set_knots(int l, std::vector<double> values, bool general) {
  const LayerShape& s = shape_.layer(l);
  const int n = shape_.knots(l);
  const std::string where = "knots of layer " + std::to_string(l) + ": ";
  if (values.size() != std::size_t(s.in) * n)
    throw Error(Code::checkpoint, where + std::to_string(values.size()) + " values, " +
                                      std::to_string(s.in) + " x " + std::to_string(n) +
                                      " expected");
  const double low = values[s.order], high = values[s.order + s.grid];
  const std::vector<double> even = uniform_knots(low, high, s.grid, s.order);
  const double tolerance = 16 * std::numeric_limits<double>::epsilon() *
                           std::max({std::abs(low), std::abs(high), high - low});
  bool uniform = true;
  for (int i = 0; i < s.in; ++i)
    for (int j = 0; j < n; ++j) {
      const double t = values[std::size_t(i) * n + j];
      const bool increasing = j == 0 || values[std::size_t(i) * n + j - 1] < t;
      if (!std::isfinite(t) || !increasing)
        throw Error(Code::checkpoint, where + "input " + std::to_string(i) + ", knot " +
                                          std::to_string(j) +
                                          " is not finite or not increasing");
      // The closed form has one set of knots for all inputs.
      uniform = uniform && std::abs(t - even[j]) <= tolerance && t == values[j];
    }
  knots_[l].values = std::move(values);
  knots_[l].uniform = uniform && !general;
}

namespace {

// Visits every trained number of layer l with its index in the flat buffer and its place
// in the arrays; call(flat, array, index) with array 0 coef, 1 base, 2 scale.
template <class Call>
void visit(const Shape& shape, int l, Call&& call) {
  const LayerShape& s = shape.layer(l);
  const int n = shape.coefficients(l), rows = shape.rows(l);
  for (int i = 0; i < s.in; ++i)
    for (int r = 0; r < rows; ++r)
      for (int o = 0; o < s.out; ++o) {
        const std::int64_t flat =
            shape.offset(l) + (std::int64_t(i) * rows + r) * s.out + o;
        const std::int64_t edge = std::int64_t(i) * s.out + o;
        if (r < n)
          call(flat, 0, edge * n + r);
        else if (r == n && shape.has_base(l))
          call(flat, 1, edge);
        else
          call(flat, 2, edge);
      }
}

template <class T>
std::vector<T>& array_of(LayerArrays<T>& a, int which) {
  return which == 0 ? a.coef : which == 1 ? a.scale_base : a.scale_spline;
}

}  // namespace

template <class T>
std::vector<LayerArrays<T>> Network<T>::unpack(const View1<T>& flat) const {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), flat);
  std::vector<LayerArrays<T>> arrays(shape_.layers());
  for (int l = 0; l < shape_.layers(); ++l) {
    const LayerShape& s = shape_.layer(l);
    const std::size_t edges = std::size_t(s.in) * s.out;
    arrays[l].coef.resize(edges * shape_.coefficients(l));
    arrays[l].scale_base.resize(shape_.has_base(l) ? edges : 0);
    arrays[l].scale_spline.resize(shape_.scale_trained() ? edges : 0);
    visit(shape_, l, [&](std::int64_t f, int which, std::int64_t at) {
      array_of(arrays[l], which)[at] = host(f);
    });
  }
  return arrays;
}

template <class T>
void Network<T>::pack(const std::vector<LayerArrays<T>>& arrays,
                      const View1<T>& flat) const {
  if (int(arrays.size()) != shape_.layers())
    throw Error(Code::checkpoint, "network: arrays of " + std::to_string(arrays.size()) +
                                      " layers, " + std::to_string(shape_.layers()) +
                                      " expected");
  const auto host = Kokkos::create_mirror_view(flat);
  for (int l = 0; l < shape_.layers(); ++l) {
    LayerArrays<T> a = arrays[l];
    const std::size_t edges = std::size_t(shape_.layer(l).in) * shape_.layer(l).out;
    if (a.coef.size() != edges * shape_.coefficients(l) ||
        a.scale_base.size() != (shape_.has_base(l) ? edges : 0) ||
        a.scale_spline.size() != (shape_.scale_trained() ? edges : 0))
      throw Error(Code::checkpoint, "network: arrays of layer " + std::to_string(l) +
                                        " do not fit its shape");
    visit(shape_, l, [&](std::int64_t f, int which, std::int64_t at) {
      host(f) = array_of(a, which)[at];
    });
  }
  Kokkos::deep_copy(flat, host);
}

template class Network<float>;
template class Network<double>;

}  // namespace kan
