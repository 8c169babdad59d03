// B-splines of order K (degree K) at one point: the K+1 basis functions that are not zero
// there, and their derivatives. Device functions on scalars; the uniform form also runs
// on host vectors.
//
// An input has G intervals on [lo, hi] and K more on each side at the mean step, so knots
// t_0 .. t_{G+2K}, intervals c = 0 .. G+2K-1 (t_c <= x < t_{c+1}, half-open) and basis
// functions B_0 .. B_{G+K-1}. In interval c the functions B_{c-K} .. B_c are not zero;
// those with an index outside 0 .. G+K-1 do not exist: kernels give them coefficients
// that are zero, so that there is no branch. Formulas: Cox and de Boor's recurrence
//   B_{i,d} = (x-t_i)/(t_{i+d}-t_i) B_{i,d-1} + (t_{i+d+1}-x)/(t_{i+d+1}-t_{i+1})
//   B_{i+1,d-1}.
#pragma once

#include "kan/math.hpp"

namespace kan {

/// Uniform knots: t in [0, 1] is the position inside the interval. values[j] = B_{c-K+j};
/// derivatives[j] is with respect to t (per step, not per x); only with WithDerivatives.
template <int K, bool WithDerivatives, class V>
KAN_INLINE void uniform_basis(V t, V* values, V* derivatives) {
  using E = Element<V>;
  values[0] = broadcast<V>(E(1));
  for (int d = 1; d <= K; ++d) {
    if constexpr (WithDerivatives) {
      if (d == K) {
        derivatives[0] = -values[0];
        for (int j = 1; j < K; ++j) derivatives[j] = values[j - 1] - values[j];
        derivatives[K] = values[K - 1];
      }
    }
    V saved = V{};
    for (int r = 0; r < d; ++r) {
      const V part = values[r] * (E(1) / E(d));
      values[r] = (E(r + 1) - t) * part + saved;
      saved = (t + E(d - 1 - r)) * part;
    }
    values[d] = saved;
  }
}

/// Any increasing knots: `knots` points at t_c, and knots[1-K] .. knots[K] are read, so a
/// row of knots is padded by K on each side (any values that keep it increasing).
/// derivatives are with respect to x.
template <int K, bool WithDerivatives, class T>
KAN_INLINE void knot_basis(T x, const T* knots, T* values, T* derivatives) {
  values[0] = T(1);
  for (int d = 1; d <= K; ++d) {
    T saved = T(0), slope = T(0);
    for (int r = 0; r < d; ++r) {
      const T right = knots[r + 1], left = knots[r + 1 - d];
      const T part = values[r] / (right - left);
      if constexpr (WithDerivatives) {
        if (d == K) {
          derivatives[r] = slope - T(K) * part;
          slope = T(K) * part;
        }
      }
      values[r] = (right - x) * part + saved;
      saved = (x - left) * part;
    }
    values[d] = saved;
    if constexpr (WithDerivatives) {
      if (d == K) derivatives[K] = slope;
    }
  }
}

/// Number of knots t_1 .. t_last that are <= x: the interval of x where t_0 <= x <
/// t_last. Binary search without branches; not-a-number gives 0.
template <class T>
KAN_INLINE int find_interval(T x, const T* knots, int intervals) {
  int first = 0, count = intervals;
  while (count > 1) {
    const int half = count / 2;
    first = x >= knots[first + half] ? first + half : first;
    count -= half;
  }
  return first;
}

/// B_{c-K+j}(t) on one interval of uniform knots as a polynomial: sum_p m[j][p] t^p.
template <int K>
struct IntervalPolynomials {
  double m[K + 1][K + 1];
  constexpr IntervalPolynomials() : m{} {
    double n[K + 2][K + 2] = {};
    n[0][0] = 1;
    for (int d = 1; d <= K; ++d) {
      double saved[K + 2] = {};
      for (int r = 0; r < d; ++r) {
        double part[K + 2] = {};
        for (int p = 0; p <= K; ++p) part[p] = n[r][p] / d;
        for (int p = 0; p <= K; ++p)
          n[r][p] = saved[p] + (r + 1) * part[p] - (p > 0 ? part[p - 1] : 0);
        for (int p = 0; p <= K; ++p)
          saved[p] = (d - 1 - r) * part[p] + (p > 0 ? part[p - 1] : 0);
      }
      for (int p = 0; p <= K; ++p) n[d][p] = saved[p];
    }
    for (int j = 0; j <= K; ++j)
      for (int p = 0; p <= K; ++p) m[j][p] = n[j][p];
  }
};

/// The same on interval [t_c, t_{c+1}) of any increasing knots, with u = (x - t_c) /
/// (t_{c+1} - t_c): m[j (order+1) + p] is the factor of u^p in B_{c-order+j}. knots
/// points at t_c; knots[1-order] .. knots[order] are read.
inline void interval_polynomials(int order, const double* knots, double* m) {
  constexpr int most = 6;
  const double start = knots[0], width = knots[1] - start;
  double n[most][most] = {{1}};
  for (int d = 1; d <= order; ++d) {
    double saved[most] = {};
    for (int r = 0; r < d; ++r) {
      const double right = knots[r + 1], left = knots[r + 1 - d];
      double part[most];
      for (int p = 0; p < most; ++p) part[p] = n[r][p] / (right - left);
      for (int p = 0; p < most; ++p) {
        const double before = p > 0 ? width * part[p - 1] : 0;
        n[r][p] = saved[p] + (right - start) * part[p] - before;
        saved[p] = (start - left) * part[p] + before;
      }
    }
    for (int p = 0; p < most; ++p) n[d][p] = saved[p];
  }
  for (int j = 0; j <= order; ++j)
    for (int p = 0; p <= order; ++p) m[j * (order + 1) + p] = n[j][p];
}

}  // namespace kan
