// The sum of a step. On the host the lane is written and read in place; on a device it
// takes a small copy each way, and the tree adds in a pinned copy of the buffer.
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
    lane_ = slots();
  } else {
    lane_ = MessageView1<T>("kan::GradientReducer::lane", kLaneSlots);
    if (communicator.size() > 1 && algorithm_ == Algorithm::tree)
      host_ = MessageView1<T>("kan::GradientReducer::host", buffer_.size());
  }
}

template <class T>
View1<T> GradientReducer<T>::gradient() const {
  return Kokkos::subview(buffer_, std::pair<std::int64_t, std::int64_t>(0, parameters_));
}

/// The lane in the buffer.
template <class T>
View1<T> GradientReducer<T>::slots() const {
  return Kokkos::subview(
      buffer_, std::pair<std::int64_t, std::int64_t>(parameters_, buffer_.size()));
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
    communicator_.queue_sum(exec, View1<T>(Kokkos::subview(buffer_, range)));
    begin += length;
  }
}

template <class T>
void GradientReducer<T>::sum(const Exec& exec) {
  if (communicator_.size() == 1) return;
  if (algorithm_ == Algorithm::library) return sum_by_library(exec);
  if constexpr (!kHostExecution) Kokkos::deep_copy(exec, host_, buffer_);
  exec.fence(label("kan::GradientReducer: gradient is complete, in host memory"));
  sum_by_tree();
  if constexpr (!kHostExecution) {
    Kokkos::deep_copy(exec, buffer_, host_);
    // The pinned copy is written again by the next call, maybe from another queue.
    exec.fence(label("kan::GradientReducer: sum is on the device"));
  }
}

template <class T>
LaneOut GradientReducer<T>::reduce(const Exec& exec, const LaneIn& in) {
  const LaneIn local = sanitized<T>(in, communicator_.rank());
  if (communicator_.size() == 1) return {local.loss_sum, local.nonfinite, local.stop};
  encode_lane(local, lane_.data());
  if constexpr (!kHostExecution) Kokkos::deep_copy(exec, slots(), lane_);
  sum(exec);
  if constexpr (!kHostExecution) Kokkos::deep_copy(exec, lane_, slots());
  communicator_.finish_sums();
  if constexpr (!kHostExecution)
    exec.fence(label("kan::GradientReducer: control lane is on the host"));
  return decode_lane<T>(lane_.data());
}

template <class T>
void GradientReducer<T>::reduce_sums(std::span<double> values) {
  if (communicator_.size() > 1) communicator_.allreduce_sum(values);
}

template class GradientReducer<float>;
template class GradientReducer<double>;

}  // namespace kan::parallel
