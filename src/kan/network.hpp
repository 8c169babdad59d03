// A network: its shape, its knots and its trained numbers in one flat buffer (shape.hpp).
//
// Layer, n inputs to m outputs: y_o = sum_i [ a_io b(x_i) + s_io sum_j c_ioj B_j(x_i) ].
// Knots belong to the input and are shared by its outputs. Where spline scales are
// folded, s = 1 is not stored. Outside the extended knots the spline part is 0.
#pragma once

#include <string>
#include <vector>

#include "kan/shape.hpp"
#include "kan/types.hpp"

namespace kan {

/// Knots of one layer: (in, G+2k+1), row-major, fp64 whatever the training precision.
struct Knots {
  bool uniform = true;  ///< every input has equally spaced knots with the same ends
  std::vector<double> values;
};

/// G+1 equally spaced knots on [low, high] and `order` more on each side.
std::vector<double> uniform_knots(double low, double high, int grid, int order);

template <class T>
class Network {
 public:
  /// Uniform knots on [low, high] in every layer; all parameters zero.
  Network(Shape shape, double low, double high);

  const Shape& shape() const { return shape_; }
  const View1<T>& parameters() const { return parameters_; }
  const Knots& knots(int l) const { return knots_[l]; }

  /// Replaces the knots of layer l by (in, G+2k+1) values, each row increasing (Error
  /// checkpoint otherwise). Equally spaced knots are recognised and take the closed form;
  /// `general` keeps the form for any knots.
  void set_knots(int l, std::vector<double> values, bool general = false);

  /// Flat buffer <-> per-layer arrays in the order of the files.
  std::vector<LayerArrays<T>> unpack(const View1<T>& flat) const;
  void pack(const std::vector<LayerArrays<T>>& arrays, const View1<T>& flat) const;

 private:
  Shape shape_;
  std::vector<Knots> knots_;
  View1<T> parameters_;
};

/// Fills the parameters in closed form from counter-based random numbers: a value depends
/// on (seed, layer, edge, coefficient) only. Distributions of PyKAN (noise 0.3) or of
/// efficient-kan (noise 0.1, random spline scales): coefficients are the minimum-norm
/// spline through U(-1/2, 1/2) noise / G at the G+1 interior knots.
template <class T>
void initialize(const Network<T>& network, Initialization kind, std::uint64_t seed);

extern template class Network<float>;
extern template class Network<double>;

}  // namespace kan
