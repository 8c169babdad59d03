// The feed of rows that every rank keeps.
#include "kan/row_feed.hpp"

#include <vector>

#include "kan/row_order.hpp"

namespace kan {

template <class T>
ResidentFeed<T>::ResidentFeed(RowSet<T> set, std::uint64_t seed, bool shuffle)
    : set_(set),
      seed_(seed),
      shuffle_(shuffle),
      order_("kan::ResidentFeed::order", set_.rows()) {}

template <class T>
void ResidentFeed<T>::start_epoch(const Exec&, std::int64_t epoch, std::int64_t) {
  const std::vector<std::uint32_t> order = row_order(seed_, epoch, rows(), shuffle_);
  Kokkos::deep_copy(
      order_,
      Kokkos::View<const std::uint32_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
          order.data(), order.size()));
}

template <class T>
Batch<T> ResidentFeed<T>::batch(const Exec&, std::int64_t position, std::int64_t,
                                const parallel::Range&) {
  Batch<T> batch;
  batch.inputs = set_.inputs;
  batch.targets = set_.targets;
  batch.order = order_;
  batch.begin = position;
  return batch;
}

template class ResidentFeed<float>;
template class ResidentFeed<double>;

}  // namespace kan
