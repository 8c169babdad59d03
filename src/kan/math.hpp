// Elementary functions that run alike on scalars (device and host) and on the host
// vectors of simd.hpp: written once, with comparisons and selections only, no branches.
//
// exp: Cody-Waite reduction x = n ln 2 + r, |r| <= ln 2 / 2, Taylor polynomial in r, n
// added to the exponent bits. The C library's exp is not used because it picks its code
// by CPU, so that bits would depend on the machine. Error: 0.91 ulp (float), 0.86 ulp
// (double) on
// [-80, 80] and [-600, 600]; arguments are clamped to +-87 and +-700.
#pragma once

#include <Kokkos_Core.hpp>
#include <bit>
#include <cstdint>

#define KAN_INLINE KOKKOS_FORCEINLINE_FUNCTION

namespace kan {

/// Element type and integer type of the same width, of a scalar or of a host vector.
template <class V>
struct Lanes;
template <>
struct Lanes<float> {
  using Element = float;
  using Integer = std::int32_t;
};
template <>
struct Lanes<double> {
  using Element = double;
  using Integer = std::int64_t;
};
template <class V>
using Element = typename Lanes<V>::Element;
template <class V>
using Integer = typename Lanes<V>::Integer;

template <class V>
inline constexpr bool kSingle = sizeof(Element<V>) == 4;

/// The same value in every lane.
template <class V>
KAN_INLINE V broadcast(Element<V> x) {
  return V{} + x;
}

template <class V>
KAN_INLINE Integer<V> bits_of(V x) {
  return __builtin_bit_cast(Integer<V>, x);
}
template <class V>
KAN_INLINE V value_of(Integer<V> x) {
  return __builtin_bit_cast(V, x);
}

// A comparison with not-a-number is false, so both return b then.
template <class V>
KAN_INLINE V smaller(V a, V b) {
  return a < b ? a : b;
}
template <class V>
KAN_INLINE V larger(V a, V b) {
  return a > b ? a : b;
}

/// 1.5 * 2^(mantissa bits): adding it rounds to the nearest whole number, which then sits
/// in the low bits.
template <class V>
inline constexpr Element<V> kRounder =
    kSingle<V> ? Element<V>(12582912.0) : Element<V>(6755399441055744.0);

/// The whole numbers in x, as integers; |x| < 2^21.
template <class V>
KAN_INLINE Integer<V> to_integer(V x) {
  const V rounder = broadcast<V>(kRounder<V>);
  return bits_of<V>(x + rounder) - bits_of<V>(rounder);
}

/// floor for 0 <= x < 2^21.
template <class V>
KAN_INLINE V floor_small(V x) {
  const V rounder = broadcast<V>(kRounder<V>);
  const V rounded = (x + rounder) - rounder;
  return rounded > x ? rounded - Element<V>(1) : rounded;
}

/// exp and silu see no more than this, on both sides or on the negative one.
template <class V>
inline constexpr Element<V> kExpLimit = kSingle<V> ? Element<V>(87) : Element<V>(700);

/// exp for |x| <= kExpLimit.
template <class V>
KAN_INLINE V exponential_inside(V x) {
  using E = Element<V>;
  constexpr bool single = kSingle<V>;
  const V shifted = x * E(1.44269504088896340736) + kRounder<V>;
  const V n = shifted - kRounder<V>;
  V r = n * (single ? E(-0.693359375) : E(-6.93147180369123816490e-01)) + x;
  r = n * (single ? E(2.12194440e-4) : E(-1.90821492927058770002e-10)) + r;
  V p;
  if constexpr (single) {
    p = broadcast<V>(E(1.0 / 5040));
    p = p * r + E(1.0 / 720);
    p = p * r + E(1.0 / 120);
    p = p * r + E(1.0 / 24);
    p = p * r + E(1.0 / 6);
  } else {
    p = broadcast<V>(E(1.0 / 6227020800.0));
    p = p * r + E(1.0 / 479001600.0);
    p = p * r + E(1.0 / 39916800.0);
    p = p * r + E(1.0 / 3628800);
    p = p * r + E(1.0 / 362880);
    p = p * r + E(1.0 / 40320);
    p = p * r + E(1.0 / 5040);
    p = p * r + E(1.0 / 720);
    p = p * r + E(1.0 / 120);
    p = p * r + E(1.0 / 24);
    p = p * r + E(1.0 / 6);
  }
  p = p * r + E(0.5);
  p = p * r + E(1);
  p = p * r + E(1);
  return value_of<V>(bits_of<V>(p) + (bits_of<V>(shifted) << (single ? 23 : 52)));
}

template <class V>
KAN_INLINE V exponential(V x) {
  const V limit = broadcast<V>(kExpLimit<V>);
  return exponential_inside<V>(smaller<V>(larger<V>(x, -limit), limit));
}

/// SiLU, x / (1 + exp(-x)), and its derivative. Error <= 3 ulp (double), 4 ulp (float)
/// where x >= -kExpLimit; below it the value there stands for all, -1e-36 or -7e-302.
template <class V>
KAN_INLINE V silu(V x, V& derivative) {
  using E = Element<V>;
  const V limit = broadcast<V>(kExpLimit<V>);
  x = larger<V>(-limit, x);  // not-a-number stays
  const V sigmoid = E(1) / (E(1) + exponential_inside<V>(larger<V>(-x, -limit)));
  derivative = sigmoid * (x * (E(1) - sigmoid) + E(1));
  return x * sigmoid;
}

}  // namespace kan
