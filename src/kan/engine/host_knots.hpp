// Host vectors for inputs whose interval is found by comparing with knots: knots that are
// not uniform, and order 1, whose slope jumps at knots. In its interval every basis
// function is a polynomial, prepared with the plan, so nothing is divided here.
#pragma once

#include "kan/engine/host_layer.hpp"
#include "kan/engine/point.hpp"

namespace kan::host {

/// Of the lanes of one vector.
template <class T>
struct Located {
  Vec<T> t;                  ///< position in the interval, in [0, 1]
  Vec<T> inverse;            ///< 1 / width of the interval; 0 where no slope exists
  Integer<Vec<T>> interval;  ///< c
};

/// x: inputs number first, first + 1, ... of the run of padded rows.
template <class T, int K>
KAN_INLINE Located<T> locate(const LayerPlan& p, const T* knots, int first, Vec<T> x) {
  constexpr int lanes = kLanes<T>;
  constexpr int kCompared = 64;  // with all knots up to here, else by halves
  using V = Vec<T>;
  const int period = p.period, r = first % period, intervals = p.intervals;
  const T* column = knots + p.columns + r;
  const T* inverse = column + (intervals + 1) * period;
  const V low = load<T>(column), high = load<T>(column + intervals * period);
  const V inside = smaller<V>(larger<V>(x, low), high);
  V start = low;
  Located<T> at{{}, load<T>(inverse), {}};
  if (intervals <= kCompared) {
    for (int j = 1; j < intervals; ++j) {
      const V knot = load<T>(column + j * period);
      const auto passed = inside >= knot;
      at.interval -= passed;
      start = passed ? knot : start;
      at.inverse = passed ? load<T>(inverse + j * period) : at.inverse;
    }
  } else {
    for (int l = 0; l < lanes; ++l) {
      int c = 0;
      for (int count = intervals; count > 1;) {
        const int half = count / 2;
        c = inside[l] >= column[(c + half) * period + l] ? c + half : c;
        count -= half;
      }
      at.interval[l] = c;
      start[l] = column[c * period + l];
      at.inverse[l] = inverse[c * period + l];
    }
  }
  at.t = (inside - start) * at.inverse;
  if constexpr (K == 1) at.inverse = x >= low && x < high ? at.inverse : V{};
  return at;
}

/// The k+1 functions there, and their derivatives with respect to x.
template <class T, int K>
KAN_INLINE void basis_by_knots(const LayerPlan& p, const T* knots, int first,
                               const Located<T>& at, Vec<T>* value, Vec<T>* slope) {
  using V = Vec<T>;
  constexpr int numbers = (K + 1) * (K + 1);
  Integer<V> piece;
  std::memcpy(&piece, knots + p.starts + first % p.period, sizeof piece);
  piece += at.interval * Integer<T>(piece_room(K));
  alignas(KAN_VECTOR_BYTES) Integer<T> offset[kLanes<T>];
  store_integer<T>(offset, piece);
  V m[numbers];
  load_rows<T, numbers - 1>(knots + p.pieces, offset, m);
  for (int j = 0; j <= K; ++j) {
    const V* c = m + j * (K + 1);
    value[j] = c[K];
    slope[j] = c[K] * T(K);
    for (int q = K - 1; q >= 1; --q) {
      value[j] = value[j] * at.t + c[q];
      slope[j] = slope[j] * at.t + c[q] * T(q);
    }
    value[j] = value[j] * at.t + c[0];
    slope[j] = slope[j] * at.inverse;
  }
}

}  // namespace kan::host
