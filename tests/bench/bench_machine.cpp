#include "bench/bench_machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "kan/simd.hpp"
#include "kan/types.hpp"

namespace kan::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSeconds = 0.02;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class V>
void keep(V& value) {
  asm volatile("" : "+x"(value));
}

// 12 sums, each fed by its own operand from 8 blocks in L1: enough to fill the pipelines.
template <class T, int bytes>
double fma_from_cache() {
  typedef T V __attribute__((vector_size(bytes)));
  constexpr int kSums = 12, kBlocks = 8, kLoops = 4096, lanes = bytes / int(sizeof(T));
  alignas(64) static T cache[kBlocks * kSums * lanes];
  std::fill(std::begin(cache), std::end(cache), T(1e-4));
  V sum[kSums];
  for (int k = 0; k < kSums; ++k) sum[k] = V{} + T(k + 1);
  V factor = V{} + T(0.9999);
  keep(factor);
  double operations = 0;
  const Clock::time_point start = Clock::now();
  double spent = 0;
  for (; spent < kSeconds; spent = since(start)) {
    for (int i = 0; i < kLoops; ++i) {
      const T* block = cache + (i % kBlocks) * kSums * lanes;
      for (int k = 0; k < kSums; ++k) {
        V operand;
        std::memcpy(&operand, block + k * lanes, bytes);
        sum[k] += factor * operand;
      }
    }
    operations += 2.0 * kLoops * kSums * lanes;
  }
  for (V& s : sum) keep(s);
  return 1e-9 * operations / spent;
}

}  // namespace

double fma_rate_bars() { return fma_from_cache<float, 32>(); }

template <class T>
double fma_rate() {
  return fma_from_cache<T, KAN_VECTOR_BYTES>();
}

double triad_rate(std::int64_t bytes) {
  const std::size_t n = std::size_t(bytes) / (3 * sizeof(float));
  std::vector<float> a(n, 0), b(n, 1), c(n, 2);
  float *x = a.data(), *y = b.data(), *z = c.data();
  double moved = 0, spent = 0;
  const Clock::time_point start = Clock::now();
  for (; spent < kSeconds; spent = since(start)) {
    KAN_INDEPENDENT
    for (std::size_t i = 0; i < n; ++i) x[i] = y[i] + 0.5f * z[i];
    asm volatile("" : : "r"(x) : "memory");
    moved += 3.0 * sizeof(float) * double(n);
  }
  return 1e-9 * moved / spent;
}

template double fma_rate<float>();
template double fma_rate<double>();

}  // namespace kan::bench
