// Host vectors: the compiler's vector extension (g++ and clang, any architecture), as
// wide as the target CPU has them. They have shuffles, which Kokkos SIMD lacks, and do
// not fall back to scalars where Kokkos was built without an architecture.
//
// Also the two accesses that a layer with one output needs: load_rows fetches, for each
// lane, the row of K+1 numbers that its offset points to, and turns rows into vectors;
// add_to_rows is the reverse. For rows of four numbers (order 2 and 3) that is a 4 x 4
// transpose inside each group of four lanes.
#pragma once

#include <cstring>
#include <utility>

#include "kan/math.hpp"

#ifndef KAN_VECTOR_BYTES
#if defined(__AVX512F__)
#define KAN_VECTOR_BYTES 64
#elif defined(__AVX__)
#define KAN_VECTOR_BYTES 32
#else
#define KAN_VECTOR_BYTES 16
#endif
#endif

namespace kan {

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(KAN_VECTOR_BYTES)));
  typedef std::int32_t integer __attribute__((vector_size(KAN_VECTOR_BYTES)));
  typedef float quad __attribute__((vector_size(16)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(KAN_VECTOR_BYTES)));
  typedef std::int64_t integer __attribute__((vector_size(KAN_VECTOR_BYTES)));
  typedef double quad __attribute__((vector_size(32)));
};
template <class T>
using Vec = typename VectorOf<T>::type;
template <class T>
inline constexpr int kLanes = KAN_VECTOR_BYTES / int(sizeof(T));

template <>
struct Lanes<Vec<float>> {
  using Element = float;
  using Integer = VectorOf<float>::integer;
};
template <>
struct Lanes<Vec<double>> {
  using Element = double;
  using Integer = VectorOf<double>::integer;
};

template <class T>
KAN_INLINE Vec<T> load(const T* p) {
  Vec<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
KAN_INLINE void store(T* p, Vec<T> v) {
  std::memcpy(p, &v, sizeof v);
}
template <class T>
KAN_INLINE void store_integer(Integer<T>* p, Integer<Vec<T>> v) {
  std::memcpy(p, &v, sizeof v);
}

namespace detail {

template <class T, int lanes, int... lane>
KAN_INLINE auto sum_halves(const auto& v, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(v, v, lane...) +
         __builtin_shufflevector(v, v, (lane + lanes / 2)...);
}
template <class T, int lanes>
KAN_INLINE T sum_of(const auto& v) {
  if constexpr (lanes == 2) {
    return v[0] + v[1];
  } else {
    return sum_of<T, lanes / 2>(
        sum_halves<T, lanes>(v, std::make_integer_sequence<int, lanes / 2>()));
  }
}

}  // namespace detail

/// Sum over lanes by halving: a fixed order, in registers.
template <class T>
KAN_INLINE T sum_lanes(Vec<T> v) {
  return detail::sum_of<T, kLanes<T>>(v);
}

namespace detail {

// Lane l of the result is lane pattern[l % 4] of the same group of four: 0-3 of a, 4-7 of
// b.
template <class V, int p0, int p1, int p2, int p3, int... lane>
KAN_INLINE V shuffle_groups(V a, V b, std::integer_sequence<int, lane...>) {
  constexpr int pattern[4] = {p0, p1, p2, p3};
  constexpr int lanes = sizeof...(lane);
  return __builtin_shufflevector(
      a, b, (lane / 4 * 4 + pattern[lane % 4] % 4 + pattern[lane % 4] / 4 * lanes)...);
}
template <class T, int p0, int p1, int p2, int p3>
KAN_INLINE Vec<T> shuffle(Vec<T> a, Vec<T> b) {
  return shuffle_groups<Vec<T>, p0, p1, p2, p3>(
      a, b, std::make_integer_sequence<int, kLanes<T>>());
}
template <class T>
KAN_INLINE void transpose_groups(Vec<T>* r) {
  const Vec<T> a = shuffle<T, 0, 4, 1, 5>(r[0], r[1]),
               b = shuffle<T, 2, 6, 3, 7>(r[0], r[1]);
  const Vec<T> c = shuffle<T, 0, 4, 1, 5>(r[2], r[3]),
               d = shuffle<T, 2, 6, 3, 7>(r[2], r[3]);
  r[0] = shuffle<T, 0, 1, 4, 5>(a, c);
  r[1] = shuffle<T, 2, 3, 6, 7>(a, c);
  r[2] = shuffle<T, 0, 1, 4, 5>(b, d);
  r[3] = shuffle<T, 2, 3, 6, 7>(b, d);
}

// Joins and splits in registers: through memory, a wide load would wait for narrow
// stores.
template <class V, class Half, int... lane>
KAN_INLINE V join(Half a, Half b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(a, b, lane...);
}
template <class T>
using Quad = typename VectorOf<T>::quad;

// Numbers table[offset[0]...+4), table[offset[4]...+4), ... side by side.
template <class T>
KAN_INLINE Vec<T> gather_quads(const T* table, const Integer<T>* offset) {
  constexpr int lanes = kLanes<T>;
  const auto quad = [&](int g) {
    Quad<T> row;
    std::memcpy(&row, table + offset[4 * g], sizeof row);
    return row;
  };
  using Lane = std::make_integer_sequence<int, lanes>;
  if constexpr (lanes == 4) {
    return quad(0);
  } else if constexpr (lanes == 8) {
    return join<Vec<T>>(quad(0), quad(1), Lane());
  } else {
    typedef T Half __attribute__((vector_size(lanes / 2 * sizeof(T))));
    using HalfLane = std::make_integer_sequence<int, lanes / 2>;
    return join<Vec<T>>(join<Half>(quad(0), quad(1), HalfLane()),
                        join<Half>(quad(2), quad(3), HalfLane()), Lane());
  }
}

template <class T, int... group>
KAN_INLINE void add_quads(T* table, const Integer<T>* offset, Vec<T> v,
                          std::integer_sequence<int, group...>) {
  const auto add = [&](int g, Quad<T> part) {
    T* p = table + offset[4 * g];
    Quad<T> row;
    std::memcpy(&row, p, sizeof row);
    row += part;
    std::memcpy(p, &row, sizeof row);
  };
  (add(group, __builtin_shufflevector(v, v, 4 * group, 4 * group + 1, 4 * group + 2,
                                      4 * group + 3)),
   ...);
}

}  // namespace detail

/// r[j] = (table[offset[lane] + j]) for j = 0..K; a row has room for a multiple of four
/// numbers.
template <class T, int K>
KAN_INLINE void load_rows(const T* table, const Integer<T>* offset, Vec<T>* r) {
  constexpr int lanes = kLanes<T>;
  if constexpr (lanes >= 4) {
    for (int first = 0; first <= K; first += 4) {
      Vec<T> q[4];
      for (int k = 0; k < 4; ++k)
        q[k] = detail::gather_quads<T>(table + first, offset + k);
      detail::transpose_groups<T>(q);
      for (int j = 0; j < 4 && first + j <= K; ++j) r[first + j] = q[j];
    }
  } else {
    alignas(KAN_VECTOR_BYTES) T lane[lanes];
    for (int j = 0; j <= K; ++j) {
      for (int l = 0; l < lanes; ++l) lane[l] = table[offset[l] + j];
      r[j] = load<T>(lane);
    }
  }
}

/// table[offset[lane] + j] += r[j][lane] for j = 0..K, lanes one after another (two lanes
/// may share a row).
template <class T, int K>
KAN_INLINE void add_to_rows(T* table, const Integer<T>* offset, const Vec<T>* r) {
  constexpr int lanes = kLanes<T>;
  if constexpr (lanes >= 4) {
    for (int first = 0; first <= K; first += 4) {
      Vec<T> q[4];
      for (int j = 0; j < 4; ++j) q[j] = first + j <= K ? r[first + j] : Vec<T>{};
      detail::transpose_groups<T>(q);
      for (int k = 0; k < 4; ++k)
        detail::add_quads<T>(table + first, offset + k, q[k],
                             std::make_integer_sequence<int, lanes / 4>());
    }
  } else {
    alignas(KAN_VECTOR_BYTES) T a[K + 1][lanes];
    for (int j = 0; j <= K; ++j) store<T>(a[j], r[j]);
    for (int l = 0; l < lanes; ++l)
      for (int j = 0; j <= K; ++j) table[offset[l] + j] += a[j][l];
  }
}

}  // namespace kan
