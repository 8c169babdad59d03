// Host form of a layer with one output: vectors over inputs. With one
// output nothing is shared between outputs, so the spline of an interval is kept as one
// polynomial in t (Horner: value and slope together), looked up by interval, and its
// gradient is collected as the moments sum dy t^p of each interval.
#pragma once

#include <algorithm>

#include "kan/engine/host_knots.hpp"

namespace kan::host {

/// Pass 1, a short body so that several iterations are in flight: interval, t, base.
template <class T, int K>
void narrow_locate(const LayerPlan& p, const T* knots, const T* x, int samples,
                   const Weights<T>& w) {
  constexpr int lanes = kLanes<T>, room = row_room(K);
  using V = Vec<T>;
  const T scale = T(p.inverse_step), shift = T(K - p.low * p.inverse_step);
  const T last = T(p.intervals);
  const int per_input = p.intervals * room;
  for (int i = 0; i < p.ld_in; i += lanes) {
    Integer<V> start;
    for (int l = 0; l < lanes; ++l) start[l] = Integer<T>(i + l) * per_input;
    for (int s = 0; s < samples; ++s) {
      const std::int64_t q = std::int64_t(s) * p.ld_in + i;
      const V at = load<T>(x + q);
      V slope;
      store<T>(w.base + q, base_at<V>(p, at, slope));
      store<T>(w.base_slope + q, slope);
      if (p.by_knots) {
        const Located<T> found = locate<T, K>(p, knots, i, at);
        store_integer<T>(w.interval + q, found.interval * Integer<T>(room) + start);
        store<T>(w.basis + q, found.t);
        store<T>(w.basis + w.stride + q, found.inverse);
      } else {
        const V u = smaller<V>(larger<V>(at * scale + shift, V{}), V{} + last);
        const V c = smaller<V>(floor_small<V>(u), V{} + (last - T(1)));
        store_integer<T>(w.interval + q, to_integer<V>(c * T(room)) + start);
        store<T>(w.basis + q, u - c);
      }
    }
  }
}

template <class T, int K>
void narrow_forward(const LayerPlan& p, const T* knots, const T* table, const T* x,
                    int samples, bool, const Weights<T>& w, T* y) {
  constexpr int lanes = kLanes<T>;
  using V = Vec<T>;
  narrow_locate<T, K>(p, knots, x, samples, w);
  const V scale = broadcast<V>(T(p.inverse_step));
  for (int s = 0; s < samples; ++s) {
    V sum{};
    for (int i = 0; i < p.ld_in; i += lanes) {
      const std::int64_t q = std::int64_t(s) * p.ld_in + i;
      V c[K + 1];
      load_rows<T, K>(table + p.table, w.interval + q, c);
      const V t = load<T>(w.basis + q), weight = load<T>(table + p.base + i);
      V value = c[K], slope = c[K] * T(K);
      for (int j = K - 1; j >= 1; --j) {
        value = value * t + c[j];
        slope = slope * t + c[j] * T(j);
      }
      value = value * t + c[0];
      slope = slope * (p.by_knots ? load<T>(w.basis + w.stride + q) : scale);
      sum += weight * load<T>(w.base + q) + value;
      store<T>(w.base_slope + q, weight * load<T>(w.base_slope + q) + slope);
    }
    y[std::int64_t(s) * p.ld_out] = sum_lanes<T>(sum);
  }
}

template <class T, int K>
void narrow_backward(const LayerPlan& p, const T*, const Weights<T>& w, int samples,
                     const T* dy, bool add, T* gradient, T* dx, std::uint64_t*) {
  constexpr int lanes = kLanes<T>;
  using V = Vec<T>;
  T *rows = gradient + p.table, *base = gradient + p.base;
  if (!add) std::fill(rows, base + p.ld_in, T(0));
  for (int s = 0; s < samples; ++s) {
    const V d = broadcast<V>(dy[std::int64_t(s) * p.ld_out]);
    for (int i = 0; i < p.ld_in; i += lanes) {
      const std::int64_t q = std::int64_t(s) * p.ld_in + i;
      const V t = load<T>(w.basis + q);
      V moment[K + 1];
      moment[0] = d;
      for (int j = 1; j <= K; ++j) moment[j] = moment[j - 1] * t;
      add_to_rows<T, K>(rows, w.interval + q, moment);
      store<T>(base + i, load<T>(base + i) + d * load<T>(w.base + q));
      if (dx) store<T>(dx + q, d * load<T>(w.base_slope + q));
    }
  }
}

inline constexpr int kMostCoefficients = 512 + 5 + 2 * 5;  // of one edge, padded

/// The basis functions on one interval as polynomials, rows `row_room` long.
template <class T, int K>
struct Polynomials {
  T m[K + 1][row_room(K)] = {};
  Polynomials() {
    static constexpr IntervalPolynomials<K> uniform;
    for (int j = 0; j <= K; ++j)
      for (int q = 0; q <= K; ++q) m[j][q] = T(uniform.m[j][q]);
  }
  void take(const LayerPlan& p, const T* knots, int input, int c) {
    if (p.uniform) return;
    const T* piece =
        knots + p.pieces + std::int64_t(input) * p.pieces_per_input + c * piece_room(K);
    for (int j = 0; j <= K; ++j)
      for (int q = 0; q <= K; ++q) m[j][q] = piece[j * (K + 1) + q];
  }
};

template <class T, int K>
void narrow_form(const LayerPlan& p, const T* knots, const T* parameters, int first,
                 int last, T* table) {
  constexpr int room = row_room(K);
  Polynomials<T, K> on;
  for (int i = first; i < last; ++i) {
    const T* flat = parameters + p.parameters + std::int64_t(i) * p.rows;
    const T scale = p.has_scale ? flat[p.rows - 1] : T(1);
    T e[kMostCoefficients];
    for (int j = 0; j < K; ++j) e[j] = e[K + p.coefficients + j] = T(0);
    for (int j = 0; j < p.coefficients; ++j) e[K + j] = scale * flat[j];
    T* to = table + p.table + std::int64_t(i) * p.intervals * room;
    for (int c = 0; c < p.intervals; ++c) {
      T row[room] = {};
      on.take(p, knots, i, c);
      for (int j = 0; j <= K; ++j)
        for (int q = 0; q < room; ++q) row[q] += on.m[j][q] * e[c + j];
      for (int q = 0; q < room; ++q) to[c * room + q] = row[q];
    }
    if (p.has_base) table[p.base + i] = flat[p.coefficients];
  }
}

template <class T, int K>
void narrow_finish(const LayerPlan& p, const T* knots, const T* parameters, const T* sums,
                   int first, int last, T* gradient) {
  constexpr int room = row_room(K);
  Polynomials<T, K> on;
  for (int i = first; i < last; ++i) {
    const std::int64_t at = p.parameters + std::int64_t(i) * p.rows;
    const T* flat = parameters + at;
    T* g = gradient + at;
    const T* moments = sums + p.table + std::int64_t(i) * p.intervals * room;
    // Slot j of the window collects the gradient of padded coefficient c + j.
    T e[kMostCoefficients], window[K + 1] = {};
    for (int c = 0; c < p.intervals; ++c) {
      on.take(p, knots, i, c);
      for (int j = 0; j <= K; ++j)
        for (int q = 0; q <= K; ++q) window[j] += on.m[j][q] * moments[c * room + q];
      e[c] = window[0];
      for (int j = 0; j < K; ++j) window[j] = window[j + 1];
      window[K] = T(0);
    }
    for (int j = 0; j < p.coefficients; ++j) {
      g[j] = p.has_scale ? flat[p.rows - 1] * e[K + j] : e[K + j];
    }
    if (p.has_scale) {
      T sum = T(0);
      for (int j = 0; j < p.coefficients; ++j) sum += flat[j] * e[K + j];
      g[p.rows - 1] = sum;
    }
    if (p.has_base) g[p.coefficients] = sums[p.base + i];
  }
}

}  // namespace kan::host
