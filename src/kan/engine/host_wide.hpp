// Host form of a wide layer: vectors over outputs. The interval of a (sample, input) is a
// scalar, so coefficient rows are contiguous loads and no gather exists. Inputs go in
// blocks that stay in L1; the coefficient gradient visits the samples of an input
// interval by interval and keeps its k+1 rows in registers.
#pragma once

#include <algorithm>
#include <bit>

#include "kan/engine/host_knots.hpp"
#include "kan/engine/wide_table.hpp"

namespace kan::host {

/// Inputs whose coefficients of so many outputs stay in L1.
template <class T>
int input_block(const LayerPlan& p, int outputs) {
  constexpr int kBytes = 45 << 10;
  return std::clamp(kBytes / (p.intervals * outputs * int(sizeof(T))), 4, 64);
}

/// Basis, slopes and base function of samples x inputs: one flat run of vectors, the last
/// of which may read and write past the end (buffers have room).
template <class T, int K>
void wide_weights(const LayerPlan& p, const T* knots, const T* x, int samples,
                  bool with_slopes, const Weights<T>& w) {
  constexpr int lanes = kLanes<T>;
  using V = Vec<T>;
  const int count = samples * p.ld_in;
  for (int q = 0; q < count; q += lanes) {
    V slope;
    store<T>(w.base + q, base_at<V>(p, load<T>(x + q), slope));
    store<T>(w.base_slope + q, slope);
  }
  if (p.by_knots) {
    V value[K + 1], slope[K + 1];
    for (int q = 0; q < count; q += lanes) {
      const Located<T> at = locate<T, K>(p, knots, q, load<T>(x + q));
      basis_by_knots<T, K>(p, knots, q, at, value, slope);
      store_integer<T>(w.interval + q, at.interval);
      for (int j = 0; j <= K; ++j) store<T>(w.basis + j * w.stride + q, value[j]);
      for (int j = 0; j <= K; ++j) store<T>(w.slope + j * w.stride + q, slope[j]);
    }
    return;
  }
  const T scale = T(p.inverse_step), shift = T(K - p.low * p.inverse_step);
  const T last = T(p.intervals);
  for (int q = 0; q < count; q += lanes) {
    const V u = smaller<V>(larger<V>(load<T>(x + q) * scale + shift, V{}), V{} + last);
    const V c = smaller<V>(floor_small<V>(u), V{} + (last - T(1)));
    store_integer<T>(w.interval + q, to_integer<V>(c));
    V value[K + 1], slope[K + 1];
    if (with_slopes) {
      uniform_basis<K, true>(u - c, value, slope);
      for (int j = 0; j <= K; ++j) store<T>(w.slope + j * w.stride + q, slope[j] * scale);
    } else {
      uniform_basis<K, false>(u - c, value, slope);
    }
    for (int j = 0; j <= K; ++j) store<T>(w.basis + j * w.stride + q, value[j]);
  }
}

// N vectors of outputs from `first`, for all samples.
template <class T, int K, int N>
KAN_INLINE void forward_strip(const LayerPlan& p, const T* table, const Weights<T>& w,
                              int samples, int first, bool add, T* y) {
  constexpr int lanes = kLanes<T>;
  const int ld = p.ld_out, block = input_block<T>(p, N * lanes);
  for (int i0 = 0; i0 < p.in; i0 += block) {
    const int i1 = std::min(p.in, i0 + block);
    for (int s = 0; s < samples; ++s) {
      T* to = y + std::int64_t(s) * ld + first;
      Vec<T> sum[N];
      for (int v = 0; v < N; ++v)
        sum[v] = add || i0 > 0 ? load<T>(to + v * lanes) : Vec<T>{};
      for (int i = i0; i < i1; ++i) {
        const std::int64_t q = std::int64_t(s) * p.ld_in + i;
        const T* row = table + p.table +
                       (std::int64_t(i) * p.intervals + w.interval[q]) * ld + first;
        const T* base = table + p.base + std::int64_t(i) * ld + first;
        T b[K + 1];
        for (int j = 0; j <= K; ++j) b[j] = w.basis[j * w.stride + q];
        for (int v = 0; v < N; ++v) {
          for (int j = 0; j <= K; ++j) sum[v] += b[j] * load<T>(row + j * ld + v * lanes);
          sum[v] += w.base[q] * load<T>(base + v * lanes);
        }
      }
      for (int v = 0; v < N; ++v) store<T>(to + v * lanes, sum[v]);
    }
  }
}

template <class T, int K>
void wide_forward(const LayerPlan& p, const T* table, const Weights<T>& w, int samples,
                  bool add, T* y) {
  constexpr int lanes = kLanes<T>;
  int o = 0;
  for (; o + 8 * lanes <= p.span; o += 8 * lanes)
    forward_strip<T, K, 8>(p, table, w, samples, o, add, y);
  for (; o + 4 * lanes <= p.span; o += 4 * lanes)
    forward_strip<T, K, 4>(p, table, w, samples, o, add, y);
  for (; o + 2 * lanes <= p.span; o += 2 * lanes)
    forward_strip<T, K, 2>(p, table, w, samples, o, add, y);
  for (; o < p.span; o += lanes) forward_strip<T, K, 1>(p, table, w, samples, o, add, y);
}

/// dx = sum_o dy_o (base' a_io + sum_j slope_j e_(c-k+j)o), some outputs at a time, so
/// that the coefficients of a block of inputs stay in L1.
template <class T, int K>
void wide_input_gradient(const LayerPlan& p, const T* table, const Weights<T>& w,
                         int samples, const T* dy, T* dx) {
  constexpr int lanes = kLanes<T>, most = 8 * lanes;
  using V = Vec<T>;
  const int ld = p.ld_out, block = input_block<T>(p, std::min(p.span, most));
  for (int o0 = 0; o0 < p.span; o0 += most) {
    const int o1 = std::min(p.span, o0 + most);
    for (int i0 = 0; i0 < p.in; i0 += block) {
      const int i1 = std::min(p.in, i0 + block);
      for (int s = 0; s < samples; ++s) {
        const T* d = dy + std::int64_t(s) * ld;
        for (int i = i0; i < i1; ++i) {
          const std::int64_t q = std::int64_t(s) * p.ld_in + i;
          const T* row =
              table + p.table + (std::int64_t(i) * p.intervals + w.interval[q]) * ld;
          const T* base = table + p.base + std::int64_t(i) * ld;
          T b[K + 1];
          for (int j = 0; j <= K; ++j) b[j] = w.slope[j * w.stride + q];
          const T b0 = w.base_slope[q];
          V sum[2] = {V{}, V{}};
          int o = o0;
          for (; o + 2 * lanes <= o1; o += 2 * lanes)
            for (int v = 0; v < 2; ++v) {
              V f = b0 * load<T>(base + o + v * lanes);
              for (int j = 0; j <= K; ++j)
                f += b[j] * load<T>(row + j * ld + o + v * lanes);
              sum[v] += f * load<T>(d + o + v * lanes);
            }
          for (; o < o1; o += lanes) {
            V f = b0 * load<T>(base + o);
            for (int j = 0; j <= K; ++j) f += b[j] * load<T>(row + j * ld + o);
            sum[0] += f * load<T>(d + o);
          }
          const T total = sum_lanes<T>(sum[0] + sum[1]);
          dx[q] = o0 > 0 ? dx[q] + total : total;
        }
      }
    }
  }
}

// The gradient of one input's coefficients to N vectors of outputs. Intervals ascend, and
// the rows of the interval at hand are sums in registers: when it moves on, one row is
// complete. samples_in[c]: bit s is set where sample s lies in interval c.
template <class T, int K, int N>
KAN_INLINE void gradient_strip(const LayerPlan& p, const Weights<T>& w, int input,
                               const std::uint64_t* samples_in, const T* dy, bool add,
                               T* rows, T* base_row) {
  constexpr int lanes = kLanes<T>;
  using V = Vec<T>;
  const int ld = p.ld_out;
  const auto put = [add](T* to, V sum) { store<T>(to, add ? load<T>(to) + sum : sum); };
  V sum[K + 1][N] = {}, base[N] = {};
  int live = 0;  // rows of the window that are not zero
  for (int c = 0; c < p.intervals; ++c, rows += ld) {
    std::uint64_t rest = samples_in[c];
    if (rest != 0) live = K + 1;
    if (live == 0 && add) continue;
    for (; rest != 0; rest &= rest - 1) {
      const std::int64_t s = std::countr_zero(rest), q = s * p.ld_in + input;
      V d[N];
      for (int v = 0; v < N; ++v) d[v] = load<T>(dy + s * ld + v * lanes);
      for (int j = 0; j <= K; ++j)
        for (int v = 0; v < N; ++v) sum[j][v] += w.basis[j * w.stride + q] * d[v];
      for (int v = 0; v < N; ++v) base[v] += w.base[q] * d[v];
    }
    for (int v = 0; v < N; ++v) {
      put(rows + v * lanes, sum[0][v]);
      for (int j = 0; j < K; ++j) sum[j][v] = sum[j + 1][v];
      sum[K][v] = V{};
    }
    live -= live > 0;
  }
  // Rows that are left belong to functions that do not exist.
  for (int v = 0; v < N; ++v) put(base_row + v * lanes, base[v]);
}

/// Vectors of outputs whose sums stay in registers: K+1 rows, the base, and dy.
constexpr int gradient_strip_vectors(int order) {
  const int fit = (KAN_VECTOR_BYTES == 64 ? 32 : 16) / (order + 3);
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

template <class T, int K>
void wide_backward(const LayerPlan& p, const T* table, const Weights<T>& w, int samples,
                   const T* dy, bool add, T* gradient, T* dx, std::uint64_t* samples_in) {
  constexpr int lanes = kLanes<T>, strip = gradient_strip_vectors(K);
  const int ld = p.ld_out;
  for (int i = 0; i < p.in; ++i) {
    std::fill_n(samples_in, p.intervals, 0);
    for (int s = 0; s < samples; ++s)
      samples_in[w.interval[std::int64_t(s) * p.ld_in + i]] |= std::uint64_t{1} << s;
    T* rows = gradient + p.table + std::int64_t(i) * p.intervals * ld;
    T* base = gradient + p.base + std::int64_t(i) * ld;
    int o = 0;
    for (; o + strip * lanes <= p.span; o += strip * lanes)
      gradient_strip<T, K, strip>(p, w, i, samples_in, dy + o, add, rows + o, base + o);
    for (; o < p.span; o += lanes)
      gradient_strip<T, K, 1>(p, w, i, samples_in, dy + o, add, rows + o, base + o);
  }
  if (dx) wide_input_gradient<T, K>(p, table, w, samples, dy, dx);
}

template <class T>
void wide_form(const LayerPlan& p, const T*, const T* parameters, int first, int last,
               T* table) {
  for (int i = first; i < last; ++i) form_wide(p, parameters, i, 0, p.out, table);
}

template <class T>
void wide_finish(const LayerPlan& p, const T*, const T* parameters, const T* sums,
                 int first, int last, T* gradient) {
  for (int i = first; i < last; ++i)
    finish_wide(p, parameters, sums, i, 0, p.out, gradient);
}

}  // namespace kan::host
