#include "kan/engine/leaf_sum.hpp"

namespace kan {
namespace {

// Two levels of the tree a pass, with its brackets, since a pass is bound by memory.
template <class T>
struct AddLeaves {
  static constexpr std::int64_t kChunk = kHostExecution ? 256 : 1;
  T* all;
  int leaves;
  std::int64_t size;
  KOKKOS_FUNCTION void operator()(std::int64_t chunk) const {
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
  }
};

}  // namespace

template <class T>
void add_leaves(const Queue& queue, T* all, int leaves, std::int64_t size) {
  if (leaves == 1) return;
  constexpr std::int64_t chunk = AddLeaves<T>::kChunk;
  queue.for_each("kan::add_leaves", (size + chunk - 1) / chunk,
                 AddLeaves<T>{all, leaves, size});
}

template void add_leaves(const Queue&, float*, int, std::int64_t);
template void add_leaves(const Queue&, double*, int, std::int64_t);

}  // namespace kan
