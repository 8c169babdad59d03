#include "kan/averaging.hpp"

#include <cmath>
#include <utility>

namespace kan {
namespace {

template <class T>
struct ScaledCopy {
  T* to;
  const T* from;
  T factor;
  KOKKOS_FUNCTION void operator()(std::int64_t k) const { to[k] = factor * from[k]; }
};

// to = factor * from.
template <class T>
void scaled_copy(const Exec& exec, const View1<T>& to, const View1<T>& from,
                 double factor) {
  Kokkos::parallel_for("kan::Averaging::scaled_copy",
                       Kokkos::RangePolicy<Exec>(exec, 0, std::int64_t(from.size())),
                       ScaledCopy<T>{to.data(), from.data(), T(factor)});
}

template <class T>
View1<T> piece(const View1<T>& all, std::size_t index, std::int64_t size) {
  const std::int64_t begin = std::int64_t(index) * size;
  return Kokkos::subview(all, std::pair<std::int64_t, std::int64_t>(begin, begin + size));
}

int pieces(int optimizer_moments, Moments moments) {
  return 1 + (moments == Moments::average ? optimizer_moments : 0);
}

}  // namespace

template <class T>
Averaging<T>::Averaging(const Exec& exec, const Network<T>& network, Update<T>& update,
                        parallel::Communicator& communicator, Moments moments,
                        bool with_parameters)
    : exec_(exec),
      network_(network),
      update_(update),
      communicator_(communicator),
      moments_(moments),
      with_parameters_(with_parameters),
      reducer_(communicator, with_parameters
                                 ? pieces(update.optimizer().moments(), moments) *
                                       network.shape().parameters()
                                 : 0) {}

template <class T>
std::vector<View1<T>> Averaging<T>::parts() const {
  std::vector<View1<T>> parts{network_.parameters()};
  const Optimizer<T>& optimizer = update_.optimizer();
  if (moments_ == Moments::average && optimizer.moments() > 0)
    parts.push_back(optimizer.first());
  if (moments_ == Moments::average && optimizer.moments() > 1)
    parts.push_back(optimizer.second());
  return parts;
}

template <class T>
void Averaging<T>::add(const LocalUpdate& local, const Outcome& outcome,
                       std::int64_t own_rows) {
  if (!outcome.finite()) in_.nonfinite = 1;
  if (!frozen()) own_rows_ += own_rows;
  rows_ += local.rows;
  waiting_.push_back(local);
}

template <class T>
std::vector<LocalUpdate> Averaging<T>::average(parallel::LaneOut& lane) {
  const std::vector<View1<T>> all = parts();
  const std::int64_t size = network_.shape().parameters();
  if (with_parameters_)
    for (std::size_t k = 0; k < all.size(); ++k)
      scaled_copy(exec_, piece(reducer_.gradient(), k, size), all[k],
                  double(own_rows_) / double(std::max<std::int64_t>(rows_, 1)));
  lane = reducer_.reduce(exec_, in_);
  if (with_parameters_) {
    for (std::size_t k = 0; k < all.size(); ++k)
      Kokkos::deep_copy(exec_, all[k], piece(reducer_.gradient(), k, size));
    if (moments_ == Moments::reset) update_.optimizer().reset(exec_);
    update_.form();
  }

  std::vector<double> sums;
  for (const LocalUpdate& local : waiting_) {
    sums.push_back(local.loss_sum);
    sums.push_back(local.norm * local.norm);
  }
  communicator_.allreduce_sum(std::span<double>(sums));
  for (std::size_t k = 0; k < waiting_.size(); ++k) {
    waiting_[k].loss_sum = sums[2 * k];
    waiting_[k].norm = std::sqrt(sums[2 * k + 1] / communicator_.size());
  }
  in_ = {};
  own_rows_ = rows_ = 0;
  return std::exchange(waiting_, {});
}

template class Averaging<float>;
template class Averaging<double>;

}  // namespace kan
