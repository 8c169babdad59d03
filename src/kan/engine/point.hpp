// One input of one layer at one point: its interval, the K+1 basis values there, their
// derivatives with respect to x, and the base function. Scalar; runs on devices, and on
// the host for layers whose knots are not uniform.
#pragma once

#include "kan/basis/bspline.hpp"
#include "kan/engine/plan.hpp"

namespace kan {

/// Interval of x on uniform knots with the position t in it; x is clamped to the extended
/// grid, at whose ends every basis function that exists is 0. At order 1 the slope jumps
/// at knots, so there the interval is settled by comparing with the knots themselves.
template <int K, class T>
KAN_INLINE int locate_uniform(T x, const LayerPlan& p, const T* knots, T& t) {
  const T last = T(p.intervals);
  const T u =
      smaller(larger(x * T(p.inverse_step) + T(K - p.low * p.inverse_step), T(0)), last);
  T c = smaller(floor_small(u), last - T(1));
  int interval = int(c);
  if constexpr (K == 1) {
    const T* row = knots + p.knots + K;
    if (interval > 0 && x < row[interval]) --interval;
    if (interval + 1 < p.intervals && x >= row[interval + 1]) ++interval;
    c = T(interval);
  }
  t = u - c;
  return interval;
}

/// Returns the interval c; values[j] and slopes[j] belong to basis function c-K+j.
template <int K, bool WithSlopes, class T>
KAN_INLINE int basis_at(T x, const LayerPlan& p, const T* knots, int input, T* values,
                        T* slopes) {
  if (p.uniform) {
    T t;
    const int c = locate_uniform<K>(x, p, knots, t);
    uniform_basis<K, WithSlopes>(t, values, slopes);
    if constexpr (WithSlopes) {
      const T scale = T(p.inverse_step);
      const T* row = knots + p.knots + K;
      const bool outside = K == 1 && !(x >= row[0] && x < row[p.intervals]);
      for (int j = 0; j <= K; ++j) slopes[j] = outside ? T(0) : slopes[j] * scale;
    }
    return c;
  }
  const T* row = knots + p.knots + std::int64_t(input) * p.knots_per_input + K;
  if (!(x >= row[0] && x < row[p.intervals])) {
    for (int j = 0; j <= K; ++j) values[j] = T(0);
    if constexpr (WithSlopes)
      for (int j = 0; j <= K; ++j) slopes[j] = T(0);
    return 0;
  }
  const int c = find_interval(x, row, p.intervals);
  knot_basis<K, WithSlopes>(x, row + c, values, slopes);
  return c;
}

/// Base function and its derivative. A layer without base has base rows of zeros and gets
/// the identity here, so that a not-a-number input still reaches the output.
template <class V>
KAN_INLINE V base_at(const LayerPlan& p, V x, V& derivative) {
  if (p.base_silu) return silu<V>(x, derivative);
  derivative = broadcast<V>(Element<V>(1));
  return x;
}

/// True where x lies outside [lo, hi] of its input (not-a-number does not count).
template <class T>
KAN_INLINE bool outside_grid(T x, const LayerPlan& p, const T* knots, int input) {
  const T* row = knots + p.knots + std::int64_t(input) * p.knots_per_input + 2 * p.order;
  return x < row[0] || x > row[p.grid];
}

}  // namespace kan
