#include "kan/ledger.hpp"

#include <chrono>
#include <thread>

#include "kan/error.hpp"

namespace kan {
namespace {

constexpr int kTeam = kHostExecution ? 1 : 128;

using Policy = Kokkos::TeamPolicy<Exec>;
using Member = Policy::member_type;

// One team adds n numbers along the binary tree, in place; the sum is in x[0].
KOKKOS_FUNCTION double tree_sum(const Member& team, double* x, std::int64_t n) {
  for (std::int64_t step = 1; step < n; step *= 2) {
    const std::int64_t pairs = (n - step + 2 * step - 1) / (2 * step);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, pairs), [&](std::int64_t pair) {
      x[2 * step * pair] += x[2 * step * pair + step];
    });
    team.team_barrier();
  }
  return n > 0 ? x[0] : 0;
}

template <class T>
struct Open {
  const Step<T>* set;
  std::int64_t slots;
  Step<T>* step;
  KOKKOS_FUNCTION void operator()(int) const { *step = set[step->number % slots]; }
};

template <class T>
struct SumUp {
  LeafSums leaves;
  const Step<T>* step;
  int rank, layers;
  std::int64_t* counts;
  double* own;
  T* lane;
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, layers + 1), [&](int column) {
      std::int64_t sum = 0;
      for (int v = leaves.first; v < leaves.last; ++v)
        sum += column < layers ? leaves.outside[v * layers + column] : leaves.correct[v];
      counts[column] += sum;
    });
    const double loss = tree_sum(team, leaves.loss, leaves.last);
    Kokkos::single(Kokkos::PerTeam(team), [&]() {
      parallel::LaneIn in;
      in.stop = step->stop;
      const bool finite = loss - loss == 0;
      in.loss_sum = finite ? loss : 0;
      in.nonfinite = finite ? 0 : 1;
      own[0] = loss;
      parallel::encode_lane(parallel::sanitized<T>(in, rank), lane);
    });
  }
};

template <class T>
struct Judge {
  double* partial;
  std::int64_t blocks;
  double clip_norm;
  const T* lane;
  const double* own;
  Verdict* verdict;
  const Step<T>* step;
  Outcome* outcomes;
  std::int64_t slots;
  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const double squares = tree_sum(team, partial, blocks);
    Kokkos::single(Kokkos::PerTeam(team), [&]() {
      const parallel::LaneOut out = parallel::decode_lane(lane);
      Outcome o;
      o.loss_sum = out.loss_sum;
      o.nonfinite = out.nonfinite;
      o.own_nonfinite = !(*own - *own == 0);
      o.norm = Kokkos::sqrt(squares);
      o.stop = out.stop;
      verdict->go = verdict->go != 0 && o.finite() ? 1 : 0;
      verdict->clip = clip_norm > 0 && o.norm > clip_norm ? clip_norm / o.norm : 1.0;
      outcomes[(step->number - 1) % slots] = o;
    });
  }
};

template <class T>
struct Stamp {
  const Step<T>* step;
  std::int64_t* stamp;
  KOKKOS_FUNCTION void operator()(int) const { *stamp = step->number; }
};

}  // namespace

template <class T>
Ledger<T>::Ledger(int layers, std::int64_t parameters)
    : counts_("kan::Ledger::counts", layers + 1),
      partial_("kan::Ledger::partial", norm_blocks(parameters)),
      own_("kan::Ledger::own", 1),
      verdict_("kan::Ledger::verdict"),
      set_("kan::Ledger::set", kSlots),
      step_("kan::Ledger::step"),
      outcomes_("kan::Ledger::outcomes", kSlots),
      stamp_("kan::Ledger::stamp", 1) {
  Kokkos::deep_copy(verdict_, Verdict{});
}

template <class T>
void Ledger<T>::set(const Step<T>& step) {
  KAN_REQUIRE(pending() < kSlots, "Ledger: outcomes are not taken");
  Step<T>& slot = set_(queued_ % kSlots);
  slot = step;
  slot.number = ++queued_;
}

template <class T>
void Ledger<T>::open(const Queue& queue) {
  queue.for_each("kan::Ledger::open", 1, Open<T>{set_.data(), kSlots, step_.data()});
}

template <class T>
void Ledger<T>::sum_up(const Queue& queue, const LeafSums& leaves, int rank, T* lane) {
  queue.parallel_for("kan::Ledger::sum_up", Policy(queue.exec(), 1, kTeam),
                     SumUp<T>{leaves, step_.data(), rank, int(counts_.size()) - 1,
                              counts_.data(), own_.data(), lane});
}

template <class T>
void Ledger<T>::judge(const Queue& queue, const View1<T>& gradient, double clip_norm,
                      const T* lane) {
  scale_and_square(queue, gradient, &step_.data()->factor, partial_.data());
  queue.parallel_for(
      "kan::Ledger::judge", Policy(queue.exec(), 1, kTeam),
      Judge<T>{partial_.data(), std::int64_t(partial_.size()), clip_norm, lane,
               own_.data(), verdict_.data(), step_.data(), outcomes_.data(), kSlots});
  // A kernel of its own: what the one before wrote is seen by the host when this runs.
  queue.for_each("kan::Ledger::stamp", 1, Stamp<T>{step_.data(), stamp_.data()});
}

template <class T>
Outcome Ledger<T>::take(const std::function<void(double)>& check) {
  KAN_REQUIRE(pending() > 0, "Ledger: no update is under way");
  const volatile std::int64_t* const stamp = stamp_.data();
  const auto start = std::chrono::steady_clock::now();
  for (int polls = 1; *stamp <= taken_; ++polls) {
    if (polls % 256 != 0) continue;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    check(waited.count());
    if (waited > std::chrono::milliseconds(20))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return outcomes_(taken_++ % kSlots);
}

template <class T>
void Ledger<T>::take_counts(const Exec& exec, Progress& progress) {
  exec.fence("kan::Ledger: counts are complete");
  const auto counts = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), counts_);
  const std::size_t layers = counts.size() - 1;
  for (std::size_t l = 0; l < layers; ++l) progress.epoch_outside[l] += counts(l);
  progress.epoch_correct += counts(layers);
  Kokkos::deep_copy(exec, counts_, 0);
}

template class Ledger<float>;
template class Ledger<double>;

}  // namespace kan
