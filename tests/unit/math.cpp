// Accuracy of exp and SiLU in units in the last place against long double, scalar and
// vector alike, and the vector width that this build really uses.
#include "kan/math.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kan/simd.hpp"

namespace {

template <class T>
double ulps(T got, long double want) {
  const T rounded = T(std::abs(want));
  const long double ulp =
      (long double)std::nextafter(rounded, std::numeric_limits<T>::infinity()) -
      (long double)rounded;
  return double(std::abs((long double)got - want) / ulp);
}

template <class T>
void check_accuracy(double silu_bound) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> near(-3, 3), far(-80, 80);
  double worst_exp = 0, worst_silu = 0;
  constexpr int lanes = kan::kLanes<T>;
  alignas(64) T x[lanes], e[lanes], y[lanes];
  for (int k = 0; k < 400000 / lanes; ++k) {
    for (T& v : x) v = T(k % 2 ? near(random) : far(random));
    kan::Vec<T> slope;
    kan::store<T>(e, kan::exponential(kan::load<T>(x)));
    kan::store<T>(y, kan::silu(kan::load<T>(x), slope));
    for (int l = 0; l < lanes; ++l) {
      const long double at = x[l];
      worst_exp = std::max(worst_exp, ulps(e[l], std::exp(at)));
      worst_silu = std::max(worst_silu, ulps(y[l], at / (1 + std::exp(-at))));
      T scalar_slope;
      REQUIRE(kan::exponential(x[l]) == e[l]);
      REQUIRE(kan::silu(x[l], scalar_slope) == y[l]);
      REQUIRE(scalar_slope == slope[l]);
    }
  }
  CHECK(worst_exp <= 1.0);
  CHECK(worst_silu <= silu_bound);
}

template <class T>
void check_rows() {
  constexpr int lanes = kan::kLanes<T>;
  T table[256];
  for (int i = 0; i < 256; ++i) table[i] = T(i);
  kan::Integer<T> offset[lanes];
  for (int l = 0; l < lanes; ++l) offset[l] = (l * 40) % 200;
  kan::Vec<T> r[4];
  kan::load_rows<T, 3>(table, offset, r);
  for (int l = 0; l < lanes; ++l)
    for (int j = 0; j < 4; ++j) REQUIRE(r[j][l] == T(offset[l] + j));
  for (kan::Integer<T>& o : offset) o = 8;  // all lanes meet in one row
  kan::add_to_rows<T, 3>(table, offset, r);
  for (int j = 0; j < 4; ++j) {
    T sum = T(8 + j);
    for (int l = 0; l < lanes; ++l) sum += r[j][l];
    CHECK(table[8 + j] == sum);
  }
  CHECK(table[12] == T(12));
}

}  // namespace

TEST_CASE("exp and SiLU are accurate, and the same in a vector and alone") {
  check_accuracy<float>(4);
  check_accuracy<double>(3);
}

TEST_CASE("rows are transposed into vectors and back") {
  check_rows<float>();
  check_rows<double>();
}

TEST_CASE("floor and conversion of small numbers") {
  for (double x : {0.0, 0.5, 0.999999999, 1.0, 7.25, 100.0, 526.99999}) {
    CHECK(kan::floor_small(x) == std::floor(x));
    CHECK(kan::to_integer(std::floor(x)) == std::int64_t(std::floor(x)));
    CHECK(kan::floor_small(float(x)) == std::floor(float(x)));
  }
}

TEST_CASE("vectors are as wide as the machine has them") {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    CHECK(KAN_VECTOR_BYTES == 64);
  else if (__builtin_cpu_supports("avx2"))
    CHECK(KAN_VECTOR_BYTES == 32);
#endif
  CHECK(kan::kLanes<float> * 4 == KAN_VECTOR_BYTES);
  CHECK(kan::kLanes<double> * 8 == KAN_VECTOR_BYTES);
}
