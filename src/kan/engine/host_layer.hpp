// Host form of one layer on a tile of samples: forward, and backward with gradients added
// into a leaf's table. Compiled once per order (host_order.cpp); LayerKernels is the row
// of the table that the engine picks per layer.
#pragma once

#include "kan/engine/plan.hpp"
#include "kan/simd.hpp"

namespace kan {

/// What the forward pass of a layer leaves for the backward pass, for samples x inputs
/// (sample-major, ld_in apart): `stride` numbers per array, k+1 arrays in basis and
/// slope. Narrow layers use basis[0] for t, basis[1] for 1 / width of the interval where
/// that differs from interval to interval, and base_slope for the whole slope.
template <class T>
struct Weights {
  T* basis = nullptr;
  T* slope = nullptr;
  T* base = nullptr;
  T* base_slope = nullptr;
  Integer<T>* interval = nullptr;  ///< narrow: offset of the row in the table
  std::int64_t stride = 0;
};

template <class T>
struct LayerKernels {
  /// y(s, ld_out) from x(s, ld_in); with_slopes if backward wants dx.
  void (*forward)(const LayerPlan&, const T* knots, const T* table, const T* x,
                  int samples, bool with_slopes, const Weights<T>&, T* y) = nullptr;
  /// Gradient (laid out as the table) of the tile, added or stored; dx(s, ld_in) unless
  /// null. At most 64 samples; samples_in: room for as many numbers as intervals.
  void (*backward)(const LayerPlan&, const T* table, const Weights<T>&, int samples,
                   const T* dy, bool add, T* gradient, T* dx,
                   std::uint64_t* samples_in) = nullptr;
  /// Table of inputs [first, last) from the flat parameters.
  void (*form)(const LayerPlan&, const T* knots, const T* parameters, int first, int last,
               T* table) = nullptr;
  /// Flat gradient of inputs [first, last) from summed table gradients.
  void (*finish)(const LayerPlan&, const T* knots, const T* parameters, const T* sums,
                 int first, int last, T* gradient) = nullptr;
};

/// Kernels for this layer's order and layout.
template <class T>
LayerKernels<T> host_layer_kernels(const LayerPlan& plan);

template <class T, int K>
LayerKernels<T> host_kernels_of_order(bool narrow);

}  // namespace kan
