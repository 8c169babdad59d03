#include "kan/shape.hpp"

#include <string>

#include "kan/error.hpp"

namespace kan {
namespace {

template <class T>
T of_layer(const std::vector<T>& values, std::size_t layer, std::size_t layers,
           const char* name) {
  KAN_REQUIRE(values.size() == 1 || values.size() == layers,
              std::string("network ") + name + ": one value, or one for each of the " +
                  std::to_string(layers) + " layers");
  return values.size() == 1 ? values[0] : values[layer];
}

}  // namespace

Shape::Shape(const NetworkOptions& options)
    : scale_trained_(options.spline_scale == SplineScale::trained) {
  KAN_REQUIRE(options.widths.size() >= 2, "network widths: at least two are needed");
  const std::size_t count = options.widths.size() - 1;
  for (std::size_t l = 0; l < count; ++l) {
    LayerShape layer;
    layer.in = options.widths[l];
    layer.out = options.widths[l + 1];
    layer.grid = of_layer(options.grid, l, count, "grid");
    layer.order = of_layer(options.order, l, count, "order");
    layer.base = of_layer(options.base, l, count, "base");
    layers_.push_back(layer);
  }
  lay_out();
}

Shape::Shape(std::vector<LayerShape> layers, bool scale_trained)
    : layers_(std::move(layers)), scale_trained_(scale_trained) {
  lay_out();
}

void Shape::lay_out() {
  KAN_REQUIRE(!layers_.empty(), "network: no layers");
  offsets_.assign(1, 0);
  for (int l = 0; l < layers(); ++l) {
    const LayerShape& s = layers_[l];
    const std::string where = "network layer " + std::to_string(l) + ": ";
    KAN_REQUIRE(s.in >= 1 && s.out >= 1, where + "widths must be at least 1");
    KAN_REQUIRE(s.grid >= 1 && s.grid <= 512, where + "grid must be 1..512");
    KAN_REQUIRE(s.order >= 1 && s.order <= 5, where + "order must be 1..5");
    KAN_REQUIRE(l == 0 || layers_[l - 1].out == s.in, where + "inputs do not fit");
    offsets_.push_back(offsets_.back() + std::int64_t(s.in) * s.out * rows(l));
  }
}

std::int64_t Shape::edges() const {
  std::int64_t sum = 0;
  for (const LayerShape& s : layers_) sum += std::int64_t(s.in) * s.out;
  return sum;
}

std::vector<std::int64_t> Shape::tensors() const {
  std::vector<std::int64_t> lengths;
  for (int l = 0; l < layers(); ++l) {
    const std::int64_t of_one = std::int64_t(layers_[l].in) * layers_[l].out;
    lengths.push_back(coefficients(l) * of_one);
    if (has_base(l)) lengths.push_back(of_one);
    if (scale_trained_) lengths.push_back(of_one);
  }
  return lengths;
}

std::int64_t Shape::parameters_pykan() const {
  std::int64_t sum = 0;
  for (const LayerShape& s : layers_)
    sum += std::int64_t(s.in) * s.out * (s.grid + s.order + 8) +
           std::int64_t(s.in) * (s.grid + 2 * s.order + 1) + 4 * std::int64_t(s.out);
  return sum;
}

}  // namespace kan
