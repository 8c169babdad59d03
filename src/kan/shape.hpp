// Sizes of a network and where everything lies in its flat buffers.
//
// Flat parameters, and gradients and moments alike: layer after layer, input after input;
// per input the rows [G+k coefficient rows][base row][spline scale row], each row `out`
// numbers, output fastest. The base row exists where the base is not `none`, the scale
// row where spline scales are trained.
#pragma once

#include <cstdint>
#include <vector>

#include "kan/options.hpp"
#include "kan/state.hpp"

namespace kan {

class Shape {
 public:
  Shape() = default;
  /// Expands one-for-all options to every layer and checks them (Error usage).
  explicit Shape(const NetworkOptions& options);
  Shape(std::vector<LayerShape> layers, bool scale_trained);

  int layers() const { return int(layers_.size()); }
  const LayerShape& layer(int l) const { return layers_[l]; }
  const std::vector<LayerShape>& all() const { return layers_; }
  bool scale_trained() const { return scale_trained_; }
  int inputs() const { return layers_.front().in; }
  int outputs() const { return layers_.back().out; }

  /// Coefficients per edge, G+k.
  int coefficients(int l) const { return layers_[l].grid + layers_[l].order; }
  /// Knots per input, G+2k+1.
  int knots(int l) const { return layers_[l].grid + 2 * layers_[l].order + 1; }
  bool has_base(int l) const { return layers_[l].base != Base::none; }
  /// Trained numbers per edge: G+k, the base weight, the spline scale.
  int rows(int l) const { return coefficients(l) + has_base(l) + scale_trained_; }
  /// Offset of layer l in the flat buffers; offset(layers()) is the total.
  std::int64_t offset(int l) const { return offsets_[l]; }
  std::int64_t parameters() const { return offsets_.back(); }
  std::int64_t edges() const;
  /// Lengths of all parameter arrays: per layer coefficients, base weights, spline
  /// scales. In the flat buffers they are interleaved.
  std::vector<std::int64_t> tensors() const;
  /// All numbers that PyKAN counts for this network, trained or not:
  /// in*out*(G+k+8) + in*(G+2k+1) + 4*out per layer.
  std::int64_t parameters_pykan() const;

 private:
  void lay_out();

  std::vector<LayerShape> layers_;
  std::vector<std::int64_t> offsets_;
  bool scale_trained_ = false;
};

}  // namespace kan
