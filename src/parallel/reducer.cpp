// The one message of a step. On the host the lane is written and read in place; on a
// device it takes a small copy each way around the reduction.
#include "parallel/reducer.hpp"

#include <array>
#include <string>
#include <utility>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

std::int64_t checked(std::int64_t parameters) {
  KAN_REQUIRE(parameters >= 0, "GradientReducer: negative number of parameters");
  return parameters;
}

}  // namespace

template <class T>
GradientReducer<T>::GradientReducer(Communicator& communicator, std::int64_t parameters)
    : communicator_(communicator),
      parameters_(checked(parameters)),
      buffer_("kan::GradientReducer::buffer",
              static_cast<std::size_t>(parameters + kLaneSlots)) {
  if (communicator.size() > kLaneMaxRanks) {
    throw Error(Code::launch, std::to_string(communicator.size()) +
                                  " ranks reduce one gradient, at most " +
                                  std::to_string(kLaneMaxRanks) +
                                  " can count exactly: start fewer ranks");
  }
}

template <class T>
View1<T> GradientReducer<T>::gradient() const {
  return Kokkos::subview(buffer_, std::pair<std::int64_t, std::int64_t>(0, parameters_));
}

template <class T>
LaneOut GradientReducer<T>::reduce(const Exec& exec, const LaneIn& in) {
  const LaneIn local = sanitized<T>(in, communicator_.rank());
  if (communicator_.size() == 1) return {local.loss_sum, local.nonfinite, local.stop};
  if constexpr (kHostExecution) {
    T* const lane = buffer_.data() + parameters_;
    encode_lane(local, std::span<T, kLaneSlots>(lane, kLaneSlots));
    communicator_.allreduce_sum(exec, buffer_);
    return decode_lane(std::span<const T, kLaneSlots>(lane, kLaneSlots));
  } else {
    std::array<T, kLaneSlots> slots{};
    const Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(slots.data(),
                                                                            kLaneSlots);
    const auto lane = Kokkos::subview(
        buffer_,
        std::pair<std::int64_t, std::int64_t>(parameters_, parameters_ + kLaneSlots));
    encode_lane(local, std::span<T, kLaneSlots>(slots));
    Kokkos::deep_copy(exec, lane, host);
    communicator_.allreduce_sum(exec, buffer_);
    Kokkos::deep_copy(exec, host, lane);
    exec.fence("kan::GradientReducer: control lane is on the host");
    return decode_lane(std::span<const T, kLaneSlots>(slots));
  }
}

template <class T>
void GradientReducer<T>::reduce_sums(std::span<double> values) {
  if (communicator_.size() > 1) communicator_.allreduce_sum(values);
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace kan::parallel
