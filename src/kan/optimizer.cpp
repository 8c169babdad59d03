#include "kan/optimizer.hpp"

#include <cmath>
#include <type_traits>

namespace kan {
namespace {

constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kFew = 4;  // blocks; a thread takes 0.1 to 0.5 us for one

// Update rules: one element from its parameter p, gradient g and moments m, v.
template <class T>
struct AdamRule {
  T rate, beta1, beta2, epsilon, correction, decay_gradient, keep;
  KOKKOS_FUNCTION AdamRule(const OptimizerOptions& o, const Rates& r)
      : rate(T(r.rate)),
        beta1(T(o.beta1)),
        beta2(T(o.beta2)),
        epsilon(T(o.epsilon)),
        correction(T(r.correction)),
        decay_gradient(o.type == OptimizerKind::adamw ? T(0) : T(o.weight_decay)),
        keep(T(r.keep)) {}
  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& p, T g, T& m, T& v) const {
    g += decay_gradient * p;
    m += (g - m) * (T(1) - beta1);
    v = beta2 * v + (T(1) - beta2) * g * g;
    p = p * keep - rate * m / (Kokkos::sqrt(v) * correction + epsilon);
  }
};
template <class T>
struct MomentumRule {
  T rate, momentum, decay_gradient;
  KOKKOS_FUNCTION MomentumRule(const OptimizerOptions& o, const Rates& r)
      : rate(T(r.rate)), momentum(T(o.momentum)), decay_gradient(T(o.weight_decay)) {}
  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& p, T g, T& m, T&) const {
    m = momentum * m + (g + decay_gradient * p);
    p -= rate * m;
  }
};
template <class T>
struct DescentRule {
  T rate, decay_gradient;
  KOKKOS_FUNCTION DescentRule(const OptimizerOptions& o, const Rates& r)
      : rate(T(r.rate)), decay_gradient(T(o.weight_decay)) {}
  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& p, T g, T&, T&) const {
    p -= rate * (g + decay_gradient * p);
  }
};

// Rates and clip of an update, or where kernels find them when they run.
struct Now {
  Rates rates;
  double clip = 1;
  const Rates* stored = nullptr;
  const Verdict* verdict = nullptr;
};

// A block of consecutive elements on the host, where the loop is vectorised; one element
// on a device. Moments that a rule does not have point at the parameters and stay unread.
template <class T, class Rule>
struct Apply {
  static constexpr std::int64_t kRun = kHostExecution ? kBlock : 1;
  OptimizerOptions options;
  Now now;
  T* p;
  const T* g;
  T *m, *v;
  std::int64_t count;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    if (now.verdict != nullptr && now.verdict->go == 0) return;
    const std::int64_t begin = block * kRun;
    const std::int64_t end = begin + kRun < count ? begin + kRun : count;
    T *const pp = p, *const mm = m, *const vv = v;
    const T* const gg = g;
    const Rule r(options, now.stored != nullptr ? *now.stored : now.rates);
    const T c = T(now.verdict != nullptr ? now.verdict->clip : now.clip);
    KAN_INDEPENDENT
    for (std::int64_t k = begin; k < end; ++k) r(pp[k], gg[k] * c, mm[k], vv[k]);
  }
};

// m, v: null for moments that the rule does not have.
template <class T>
void apply(const Queue& queue, const OptimizerOptions& options, const Now& now,
           const View1<T>& p, const View1<const T>& g, T* m, T* v) {
  const std::int64_t count = p.size();
  T* const none = p.data();
  const auto with = [&]<class Rule>(std::type_identity<Rule>) {
    using Kernel = Apply<T, Rule>;
    queue.for_each("kan::Optimizer::update", (count + Kernel::kRun - 1) / Kernel::kRun,
                   Kernel{options, now, p.data(), g.data(), m != nullptr ? m : none,
                          v != nullptr ? v : none, count},
                   kFew);
  };
  if (v != nullptr) return with(std::type_identity<AdamRule<T>>());
  if (m != nullptr) return with(std::type_identity<MomentumRule<T>>());
  with(std::type_identity<DescentRule<T>>());
}

// Eight running sums, so that the loop vectorises with a fixed order of additions.
template <class T>
struct ScaleAndSquare {
  T* g;
  double* partial;
  double factor_now;
  const double* stored;
  std::int64_t count;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const T factor = T(stored != nullptr ? *stored : factor_now);
    const std::int64_t begin = block * kBlock;
    const std::int64_t n = begin + kBlock < count ? kBlock : count - begin;
    T* const x = g + begin;
    double sum[8] = {};
    std::int64_t k = 0;
    for (; k + 8 <= n; k += 8)
      for (int j = 0; j < 8; ++j) {
        const T y = x[k + j] * factor;
        x[k + j] = y;
        sum[j] += double(y) * double(y);
      }
    for (; k < n; ++k) {
      x[k] *= factor;
      sum[0] += double(x[k]) * double(x[k]);
    }
    partial[block] =
        ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
};

template <class T>
void scale_and_square(const Queue& queue, const View1<T>& gradient, double factor,
                      const double* stored, double* blocks) {
  const std::int64_t size = gradient.size();
  queue.for_each("kan::scale_and_square", norm_blocks(size),
                 ScaleAndSquare<T>{gradient.data(), blocks, factor, stored, size}, kFew);
}

}  // namespace

std::int64_t norm_blocks(std::int64_t size) { return (size + kBlock - 1) / kBlock; }

template <class T>
void scale_and_square(const Queue& queue, const View1<T>& gradient, double factor,
                      double* blocks) {
  scale_and_square(queue, gradient, factor, nullptr, blocks);
}

template <class T>
void scale_and_square(const Queue& queue, const View1<T>& gradient, const double* factor,
                      double* blocks) {
  scale_and_square(queue, gradient, 1, factor, blocks);
}

double add_blocks(const Exec& exec, const MessageView1<double>& blocks) {
  exec.fence(label("kan::add_blocks"));
  const std::int64_t count = blocks.size();
  for (std::int64_t step = 1; step < count; step *= 2)
    for (std::int64_t b = 0; b + step < count; b += 2 * step)
      blocks(b) += blocks(b + step);
  return count > 0 ? blocks(0) : 0;
}

template <class T>
Optimizer<T>::Optimizer(const OptimizerOptions& options, std::int64_t parameters)
    : options_(options),
      moments_(options.type != OptimizerKind::sgd ? 2
               : options.momentum != 0            ? 1
                                                  : 0) {
  if (moments_ > 0) first_ = View1<T>("kan::Optimizer::first", parameters);
  if (moments_ > 1) second_ = View1<T>("kan::Optimizer::second", parameters);
}

template <class T>
Rates Optimizer<T>::count(double learning_rate) {
  ++steps_;
  const OptimizerOptions& o = options_;
  if (o.type == OptimizerKind::sgd) return {learning_rate, 1, 1};
  const double t = double(steps_);
  return {learning_rate / (1 - std::pow(o.beta1, t)),
          1 / std::sqrt(1 - std::pow(o.beta2, t)),
          o.type == OptimizerKind::adamw ? 1 - learning_rate * o.weight_decay : 1};
}

template <class T>
void Optimizer<T>::update(const Queue& queue, const View1<T>& parameters,
                          const View1<const T>& gradient, double learning_rate,
                          double clip) {
  apply(queue, options_, Now{count(learning_rate), clip, nullptr, nullptr}, parameters,
        gradient, first_.data(), second_.data());
}

template <class T>
void Optimizer<T>::update(const Queue& queue, const View1<T>& parameters,
                          const View1<const T>& gradient, const Rates* rates,
                          const Verdict* verdict) {
  apply(queue, options_, Now{{}, 1, rates, verdict}, parameters, gradient, first_.data(),
        second_.data());
}

template <class T>
void Optimizer<T>::reset(const Exec& exec) {
  Kokkos::deep_copy(exec, first_, T(0));
  Kokkos::deep_copy(exec, second_, T(0));
  steps_ = 0;
}

template class Optimizer<float>;
template class Optimizer<double>;
#define KAN_SCALE_INSTANCES(T)                                                    \
  template void scale_and_square(const Queue&, const View1<T>&, double, double*); \
  template void scale_and_square(const Queue&, const View1<T>&, const double*, double*);
KAN_SCALE_INSTANCES(float)
KAN_SCALE_INSTANCES(double)
#undef KAN_SCALE_INSTANCES

}  // namespace kan
