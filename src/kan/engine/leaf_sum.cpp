#include "kan/engine/leaf_sum.hpp"

namespace kan {

// Two levels of the tree a pass, with its brackets, since a pass is bound by memory.
template <class T>
void add_leaves(const Exec& exec, T* all, int leaves, std::int64_t size) {
  if (leaves == 1) return;
  constexpr std::int64_t kChunk = kHostExecution ? 256 : 1;
  Kokkos::parallel_for(
      "kan::add_leaves", Kokkos::RangePolicy<Exec>(exec, 0, (size + kChunk - 1) / kChunk),
      KOKKOS_LAMBDA(std::int64_t chunk) {
        const std::int64_t begin = chunk * kChunk;
        const std::int64_t count = begin + kChunk < size ? kChunk : size - begin;
        T* const a = all + begin;
        int step = 1;
        for (; 4 * step <= leaves; step *= 4)
          for (int b = 0; b < leaves; b += 4 * step) {
            T* p = a + b * size;
            const T *q = p + step * size, *r = q + step * size, *s = r + step * size;
            KAN_INDEPENDENT
            for (std::int64_t k = 0; k < count; ++k) p[k] = (p[k] + q[k]) + (r[k] + s[k]);
          }
        for (; 2 * step <= leaves; step *= 2)
          for (int b = 0; b < leaves; b += 2 * step) {
            T* p = a + b * size;
            const T* q = p + step * size;
            KAN_INDEPENDENT
            for (std::int64_t k = 0; k < count; ++k) p[k] += q[k];
          }
      });
}

template void add_leaves(const Exec&, float*, int, std::int64_t);
template void add_leaves(const Exec&, double*, int, std::int64_t);

}  // namespace kan
