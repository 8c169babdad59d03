// What both engines of the host form share: the kernels of each layer, the table and the
// flat gradient, and how rows come in and losses go out.
#pragma once

#include <algorithm>
#include <vector>

#include "kan/engine/engine.hpp"
#include "kan/engine/host_layer.hpp"
#include "kan/engine/point.hpp"

namespace kan {

inline constexpr int kTile = 64;       ///< rows: bits of a word
inline constexpr int kHostSlack = 64;  ///< numbers past the end that vectors may touch

/// Kernels for this layer's order and layout.
template <class T>
LayerKernels<T> host_layer_kernels(const LayerPlan& plan) {
  switch (plan.order) {
    case 1:
      return host_kernels_of_order<T, 1>(plan.narrow);
    case 2:
      return host_kernels_of_order<T, 2>(plan.narrow);
    case 3:
      return host_kernels_of_order<T, 3>(plan.narrow);
    case 4:
      return host_kernels_of_order<T, 4>(plan.narrow);
    default:
      return host_kernels_of_order<T, 5>(plan.narrow);
  }
}

/// Inputs outside [lo, hi]; integers only, so the order does not matter.
template <class T>
std::int64_t count_outside(const LayerPlan& p, const T* knots, const T* x, int samples) {
  std::int64_t count = 0;
  if (p.uniform) {
    const T low = knots[p.knots + 2 * p.order];
    const T high = knots[p.knots + 2 * p.order + p.grid];
    const int width = p.ld_in == p.in ? samples * p.in : p.in;
    const int runs = p.ld_in == p.in ? 1 : samples;
    for (int s = 0; s < runs; ++s) {
      const T* row = x + std::int64_t(s) * p.ld_in;
      int in_row = 0;
      for (int i = 0; i < width; ++i) in_row += int(row[i] < low) | int(row[i] > high);
      count += in_row;
    }
    return count;
  }
  constexpr int lanes = kLanes<T>;
  const int run = samples * p.ld_in, whole = run / lanes * lanes;
  const T* low = knots + p.columns + std::int64_t(p.order) * p.column_stride;
  const T* high = low + std::int64_t(p.grid) * p.column_stride;
  Integer<Vec<T>> outside{};
  for (int q = 0; q < whole; q += lanes) {
    const int r = q % p.period;
    const Vec<T> at = load<T>(x + q);
    outside -= (at < load<T>(low + r)) | (at > load<T>(high + r));
  }
  for (int l = 0; l < lanes; ++l) count += outside[l];
  for (int q = whole; q < run; ++q) count += outside_grid(x[q], p, knots, q % p.ld_in);
  return count;
}

template <class T>
class HostForm : public Engine<T> {
 public:
  int vector_bytes() const override { return KAN_VECTOR_BYTES; }

  void form(const Queue& queue, const View1<const T>& parameters) override {
    queue.for_each("kan::HostForm::form", std::int64_t(items_.size()),
                   Form{this, parameters.data()});
  }

  void finish(const Queue& queue, const View1<const T>& parameters,
              const View1<const T>& root, const View1<T>& gradient) override {
    queue.for_each("kan::HostForm::finish", std::int64_t(items_.size()),
                   Finish{this, parameters.data(), root.data(), gradient.data()});
  }

 protected:
  using Engine<T>::plan_;
  using Engine<T>::knots_;
  using Engine<T>::table_;

  HostForm(const Exec& exec, const Network<T>& network)
      : Engine<T>(make_plan(network, kLanes<T>, true)), threads_(exec.concurrency()) {
    for (const LayerPlan& p : plan_.layers) {
      kernels_.push_back(host_layer_kernels<T>(p));
      // A narrow item is small: several inputs together.
      const int inputs = p.narrow ? 8 : 1;
      for (int i = 0; i < p.in; i += inputs)
        items_.push_back({int(kernels_.size()) - 1, i, std::min(p.in, i + inputs)});
    }
  }

  /// Rows first, ..., first + samples - 1 of the batch as x(s, ld_in) of the first layer.
  void gather(const Rows<T>& rows, std::int64_t first, int samples, T* x) const {
    const int in = plan_.layers[0].in, ld = plan_.layers[0].ld_in;
    for (int s = 0; s < samples; ++s) {
      const T* from = rows.inputs + rows.row(first + s) * in;
      for (int i = 0; i < in; ++i) x[std::int64_t(s) * ld + i] = from[i];
    }
  }

  /// Adds losses of rows to `loss` and right classes to `right`; dy(s, ld_out) from
  /// y(s, ld_out). columns: of the targets.
  void losses(const Rows<T>& rows, int columns, LossKind kind, std::int64_t first,
              int samples, const T* y, T* dy, double& loss, std::int64_t& right) const {
    const LayerPlan& last = plan_.layers.back();
    for (int s = 0; s < samples; ++s) {
      int correct = 0;
      loss += loss_row(kind, y + std::int64_t(s) * last.ld_out,
                       rows.targets + rows.row(first + s) * columns, last.out,
                       dy + std::int64_t(s) * last.ld_out, correct);
      right += correct;
    }
  }

  std::int64_t threads_;
  std::vector<LayerKernels<T>> kernels_;

 private:
  struct Item {
    int layer, first, last;
  };

  // Kernels over items.
  struct Form {
    const HostForm* self;
    const T* parameters;
    void operator()(std::int64_t k) const {
      const Item& it = self->items_[k];
      self->kernels_[it.layer].form(self->plan_.layers[it.layer], self->knots_.data(),
                                    parameters, it.first, it.last, self->table_.data());
    }
  };
  struct Finish {
    const HostForm* self;
    const T *parameters, *root;
    T* gradient;
    void operator()(std::int64_t k) const {
      const Item& it = self->items_[k];
      self->kernels_[it.layer].finish(self->plan_.layers[it.layer], self->knots_.data(),
                                      parameters, root, it.first, it.last, gradient);
    }
  };

  std::vector<Item> items_;
};

}  // namespace kan
