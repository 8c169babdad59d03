// The sum of a step. On the host the lane is written and read in place. On a device the
// tree adds in a pinned copy of the buffer, which the lane is written to; a library is
// given the buffer itself, and the lane takes a small copy each way.
#include "parallel/reducer.hpp"

#include <numeric>
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
GradientReducer<T>::GradientReducer(Communicator& communicator, std::int64_t parameters,
                                    Algorithm algorithm,
                                    const std::vector<std::int64_t>& messages)
    : communicator_(communicator),
      parameters_(checked(parameters)),
      algorithm_(algorithm == Algorithm::automatic ? communicator.preferred()
                                                   : algorithm),
      messages_(messages),
      buffer_("kan::GradientReducer::buffer",
              static_cast<std::size_t>(parameters + kLaneSlots)),
      pairwise_(communicator) {
  if (communicator.size() > kLaneMaxRanks) {
    throw Error(Code::launch, std::to_string(communicator.size()) +
                                  " ranks reduce one gradient, at most " +
                                  std::to_string(kLaneMaxRanks) +
                                  " can count exactly: start fewer ranks");
  }
  const std::int64_t listed =
      std::accumulate(messages.begin(), messages.end(), std::int64_t{0});
  KAN_REQUIRE(messages.empty() || listed == parameters,
              "GradientReducer: the messages do not make up the gradient");
  messages_.push_back(messages.empty() ? parameters + kLaneSlots : kLaneSlots);
  if constexpr (kHostExecution) {
    host_ = buffer_;
  } else if (communicator.size() > 1) {
    host_ = MessageView1<T>("kan::GradientReducer::host",
                            algorithm_ == Algorithm::tree ? buffer_.size() : kLaneSlots);
  }
}

template <class T>
View1<T> GradientReducer<T>::gradient() const {
  return Kokkos::subview(buffer_, std::pair<std::int64_t, std::int64_t>(0, parameters_));
}

/// In host memory: the last slots of host_.
template <class T>
std::span<T, kLaneSlots> GradientReducer<T>::lane() const {
  return std::span<T, kLaneSlots>(host_.data() + host_.size() - kLaneSlots, kLaneSlots);
}

template <class T>
void GradientReducer<T>::sum_by_tree() {
  const std::span<T> all(host_.data(), host_.size());
  std::size_t begin = 0;
  for (const std::int64_t length : messages_) {
    pairwise_.sum(all.subspan(begin, static_cast<std::size_t>(length)));
    begin += static_cast<std::size_t>(length);
  }
}

template <class T>
void GradientReducer<T>::sum_by_library(const Exec& exec) {
  std::int64_t begin = 0;
  for (const std::int64_t length : messages_) {
    const std::pair<std::int64_t, std::int64_t> range(begin, begin + length);
    communicator_.allreduce_sum(exec, View1<T>(Kokkos::subview(buffer_, range)));
    begin += length;
  }
}

template <class T>
LaneOut GradientReducer<T>::reduce(const Exec& exec, const LaneIn& in) {
  const LaneIn local = sanitized<T>(in, communicator_.rank());
  if (communicator_.size() == 1) return {local.loss_sum, local.nonfinite, local.stop};
  const bool tree = algorithm_ == Algorithm::tree;
  if constexpr (kHostExecution) {
    encode_lane(local, lane());
    if (tree) {
      exec.fence("kan::GradientReducer: gradient is complete");
      sum_by_tree();
    } else {
      sum_by_library(exec);
    }
  } else if (tree) {
    Kokkos::deep_copy(exec, host_, buffer_);
    exec.fence("kan::GradientReducer: gradient is in pinned memory");
    encode_lane(local, lane());
    sum_by_tree();
    Kokkos::deep_copy(exec, buffer_, host_);
    // The pinned copy is written again by the next call, maybe from another queue.
    exec.fence("kan::GradientReducer: sum is on the device");
  } else {
    const auto slots = Kokkos::subview(
        buffer_,
        std::pair<std::int64_t, std::int64_t>(parameters_, parameters_ + kLaneSlots));
    encode_lane(local, lane());
    Kokkos::deep_copy(exec, slots, host_);
    sum_by_library(exec);
    Kokkos::deep_copy(exec, host_, slots);
    exec.fence("kan::GradientReducer: control lane is on the host");
  }
  return decode_lane(std::span<const T, kLaneSlots>(lane()));
}

template <class T>
void GradientReducer<T>::reduce_sums(std::span<double> values) {
  if (communicator_.size() > 1) communicator_.allreduce_sum(values);
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace kan::parallel
