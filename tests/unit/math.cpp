// Accuracy of exp and SiLU in units in the last place against long double, for numbers of
// all magnitudes, scalar and vector alike, and the vector width that this build really
// uses.
#include "kan/math.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "kan/engine/engine.hpp"
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

// Numbers near the bend, inside the limits of exp, and of all magnitudes, from the least
// subnormal number to the largest.
template <class T>
std::vector<T> samples(int count) {
  using Limits = std::numeric_limits<T>;
  std::mt19937_64 random(5);
  const double limit = kan::kExpLimit<T>;
  std::uniform_real_distribution<double> near(-3, 3), far(-limit, limit),
      magnitude(Limits::min_exponent - Limits::digits, Limits::max_exponent);
  std::vector<T> all{0, -0.0, T(limit), T(-limit), Limits::max(), Limits::denorm_min()};
  while (int(all.size()) < count) {
    all.push_back(T(near(random)));
    all.push_back(T(far(random)));
    all.push_back(std::ldexp(T(near(random) / 3), int(magnitude(random))));
  }
  all.resize(count);
  return all;
}

template <class T>
void check_accuracy(double silu_bound) {
  constexpr int lanes = kan::kLanes<T>, count = 1 << 19;
  const long double limit = kan::kExpLimit<T>,
                    epsilon = std::numeric_limits<T>::epsilon();
  const std::vector<T> all = samples<T>(count);
  double worst_exp = 0, worst_silu = 0, worst_slope = 0, worst_tail = 0;
  for (int k = 0; k < count; k += lanes) {
    const kan::Vec<T> x = kan::load<T>(&all[k]);
    kan::Vec<T> slope;
    const kan::Vec<T> e = kan::exponential(x), y = kan::silu(x, slope);
    for (int l = 0; l < lanes; ++l) {
      const long double at = x[l], sigmoid = 1 / (1 + std::exp(-at)), want = at * sigmoid;
      if (std::abs(at) <= limit)
        worst_exp = std::max(worst_exp, ulps(e[l], std::exp(at)));
      if (at >= -limit)
        worst_silu = std::max(worst_silu, ulps(y[l], want));
      else
        worst_tail = std::max(worst_tail, double(std::abs(y[l] - want)));
      const long double want_slope = sigmoid * (1 + at / (1 + std::exp(at)));
      worst_slope =
          std::max(worst_slope, double(std::abs(slope[l] - want_slope) / epsilon));
      T scalar_slope;
      REQUIRE(kan::exponential(T(x[l])) == e[l]);
      REQUIRE(kan::silu(T(x[l]), scalar_slope) == y[l]);
      REQUIRE(scalar_slope == slope[l]);
    }
  }
  CHECK(worst_exp <= 1.0);
  CHECK(worst_silu <= silu_bound);
  CHECK(worst_slope <= 20);  // 1 - sigmoid, to half an epsilon, times x <= 37
  CHECK(worst_tail <= 1.001 * limit * std::exp(-limit));
  CHECK(worst_tail > 0);  // it was seen
  T slope;
  CHECK(std::isnan(kan::silu(std::numeric_limits<T>::quiet_NaN(), slope)));
  CHECK(std::isnan(slope));
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
  CHECK(kan::kLanes<float> * 4 == KAN_VECTOR_BYTES);
  CHECK(kan::kLanes<double> * 8 == KAN_VECTOR_BYTES);
  // kernels of the library, which are compiled apart from this test
  const kan::Network<float> network(kan::Shape({.widths = {2, 3, 1}}), -1, 1);
  const auto engine = kan::make_engine(kan::Exec(), network, kan::Kernels::automatic);
  if (kan::kHostExecution) CHECK(engine->vector_bytes() == KAN_VECTOR_BYTES);
  if (std::string_view(KAN_ARCH) != "native") SKIP("KAN_ARCH was set to " KAN_ARCH);
#if defined(__x86_64__)
  __builtin_cpu_init();
  const int wide = __builtin_cpu_supports("avx512f") ? 64
                   : __builtin_cpu_supports("avx")   ? 32
                                                     : 16;
#else
  const int wide = 16;
#endif
#if defined(__aarch64__) && !defined(__ARM_NEON)
  FAIL("compiled without NEON, which every such machine has");
#endif
  CHECK(KAN_VECTOR_BYTES == wide);
}
