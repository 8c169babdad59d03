// Rounds of pairwise messages. While a vector is halved, all of it outside of the part
// that a rank still keeps has been given away and is filled again later: the lane rides
// there, next to the half that is sent, and needs no message or copy of its own.
#include "parallel/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kan/error.hpp"
#include "kan/types.hpp"

namespace kan::parallel {
namespace {

constexpr std::size_t kHalvingBytes = 16384;  // from here on vectors are halved
constexpr std::size_t kAlign = 16;            // elements that parts are multiples of
constexpr std::size_t kThreaded = 1 << 16;    // below this, starting threads costs more
constexpr std::size_t kBlock = 1 << 13;       // elements that a thread takes at a time

template <class T>
void add_serially(T* __restrict into, const T* __restrict from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) into[i] += from[i];
}

}  // namespace

template <class T>
void add_to(T* into, const T* from, std::size_t n) {
  const HostExec host;
  if (n < kThreaded || host.concurrency() == 1) return add_serially(into, from, n);
  Kokkos::parallel_for(
      label("kan::parallel::add_to"),
      Kokkos::RangePolicy<HostExec>(host, 0,
                                    static_cast<std::int64_t>((n + kBlock - 1) / kBlock)),
      [=](const std::int64_t block) {
        const std::size_t first = static_cast<std::size_t>(block) * kBlock;
        add_serially(into + first, from + first, std::min(kBlock, n - first));
      });
  host.fence(label("kan::parallel::add_to: added"));
}

template <class T>
PairwiseSum<T>::PairwiseSum(Communicator& communicator, PairwiseForm form)
    : communicator_(communicator),
      form_(form),
      core_(static_cast<int>(std::bit_floor(static_cast<unsigned>(communicator.size())))),
      extra_(communicator.size() - core_),
      place_(communicator.rank() < 2 * extra_ ? communicator.rank() / 2
                                              : communicator.rank() - extra_) {}

template <class T>
bool PairwiseSum<T>::halves(std::size_t n) const {
  return form_ == PairwiseForm::automatic ? n * sizeof(T) > kHalvingBytes
                                          : form_ == PairwiseForm::halving;
}

/// The rank whose place differs in this bit.
template <class T>
int PairwiseSum<T>::partner(int bit) const {
  const int place = place_ ^ bit;
  return place < extra_ ? 2 * place : place + extra_;
}

template <class T>
T* PairwiseSum<T>::scratch(std::size_t n) {
  if (scratch_.size() < n) scratch_.resize(n);
  return scratch_.data();
}

/// Sends `give` to the partner, adds what comes to `keep`. The lane rides beside what is
/// given; the partner's beside its own, on the other side where the two sent halves.
template <class T>
void PairwiseSum<T>::swap_and_add(std::span<T> give, Side side, std::span<T> keep,
                                  int partner, LaneWords* lane) {
  if (lane == nullptr) {
    T* const from = scratch(keep.size());
    communicator_.sendrecv(std::span<const T>(give), partner,
                           std::span<T>(from, keep.size()), partner);
    return add_to(keep.data(), from, keep.size());
  }
  const bool whole = give.data() == keep.data();
  const bool before = side == Side::before, comes_before = !whole && !before;
  T* const sent = give.data() - (before ? kMargin : 0);
  T* const from = scratch(keep.size() + kMargin);
  std::memcpy(before ? sent : give.data() + give.size(), lane, sizeof *lane);
  communicator_.sendrecv(std::span<const T>(sent, give.size() + kMargin), partner,
                         std::span<T>(from, keep.size() + kMargin), partner);
  add_to(keep.data(), from + (comes_before ? kMargin : 0), keep.size());
  LaneWords other;
  std::memcpy(static_cast<void*>(&other), comes_before ? from : from + keep.size(),
              sizeof other);
  lane->loss += other.loss;
  lane->count += other.count;
  lane->flags |= other.flags;
}

template <class T>
void PairwiseSum<T>::doubling(std::span<T> values, LaneWords* lane) {
  for (int bit = 1; bit < core_; bit *= 2)
    swap_and_add(values, Side::behind, values, partner(bit), lane);
}

template <class T>
void PairwiseSum<T>::halving(std::span<T> values, LaneWords* lane) {
  std::span<T> part = values;
  parts_.clear();
  const auto halves_of = [](std::span<T> all) {
    const std::size_t half = (all.size() / 2 + kAlign - 1) / kAlign * kAlign;
    const std::size_t low = std::min(half, all.size());
    return std::pair(all.first(low), all.subspan(low));
  };
  for (int bit = 1; bit < core_; bit *= 2) {
    parts_.push_back(part);
    const auto [low, high] = halves_of(part);
    if ((place_ & bit) == 0) {
      swap_and_add(high, Side::behind, low, partner(bit), lane);
      part = low;
    } else {
      swap_and_add(low, Side::before, high, partner(bit), lane);
      part = high;
    }
  }
  for (int bit = core_ / 2; bit > 0; bit /= 2) {
    const auto [low, high] = halves_of(parts_.back());
    const bool keeps_low = (place_ & bit) == 0;
    const std::span<T> own = keeps_low ? low : high, other = keeps_low ? high : low;
    communicator_.sendrecv(std::span<const T>(own), partner(bit), other, partner(bit));
    parts_.pop_back();
  }
}

template <class T>
void PairwiseSum<T>::run(std::span<T> values, LaneWords* lane) {
  KAN_REQUIRE(lane == nullptr || extra_ == 0,
              "PairwiseSum: a lane needs a number of ranks that is a power of two");
  if (communicator_.size() == 1 || (values.empty() && lane == nullptr)) return;
  constexpr int kNobody = Communicator::kNobody;
  const int rank = communicator_.rank();
  const bool paired = rank < 2 * extra_, outside = paired && rank % 2 == 1;
  const int neighbour = outside ? rank - 1 : rank + 1;
  const auto send = [&] {
    communicator_.sendrecv(std::span<const T>(values), neighbour, std::span<T>(),
                           kNobody);
  };
  const auto receive = [&](T* into) {
    communicator_.sendrecv(std::span<const T>(), kNobody,
                           std::span<T>(into, values.size()), neighbour);
  };
  if (outside) {
    send();
    return receive(values.data());
  }
  if (paired) {
    T* const from = scratch(values.size());
    receive(from);
    add_to(values.data(), from, values.size());
  }
  if (halves(values.size()))
    halving(values, lane);
  else
    doubling(values, lane);
  if (paired) send();
}

template class PairwiseSum<float>;
template class PairwiseSum<double>;
template void add_to(float*, const float*, std::size_t);
template void add_to(double*, const double*, std::size_t);

}  // namespace kan::parallel
