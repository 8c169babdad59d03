#include "kan/optimizer.hpp"

#include <cmath>
#include <vector>

namespace kan {
namespace {

constexpr std::int64_t kBlock = 1024;

// Update rules: one element from its parameter p, gradient g and moments m, v.
template <class T>
struct AdamRule {
  T rate, beta1, beta2, epsilon, correction, decay_gradient, keep;
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
  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& p, T g, T& m, T&) const {
    m = momentum * m + (g + decay_gradient * p);
    p -= rate * m;
  }
};
template <class T>
struct DescentRule {
  T rate, decay_gradient;
  KOKKOS_FORCEINLINE_FUNCTION void operator()(T& p, T g, T&, T&) const {
    p -= rate * (g + decay_gradient * p);
  }
};

// A block of consecutive elements on the host, where the loop is vectorised; one element
// on a device. Moments that a rule does not have point at the parameters and stay unread.
template <class T, class Rule>
struct Apply {
  static constexpr std::int64_t kRun = kHostExecution ? kBlock : 1;
  Rule rule;
  T* p;
  const T* g;
  T *m, *v;
  double clip;
  const Verdict* verdict;
  std::int64_t count;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    if (verdict != nullptr && verdict->go == 0) return;
    const std::int64_t begin = block * kRun;
    const std::int64_t end = begin + kRun < count ? begin + kRun : count;
    T *const pp = p, *const mm = m, *const vv = v;
    const T* const gg = g;
    const Rule r = rule;
    const T c = T(verdict != nullptr ? verdict->clip : clip);
    KAN_INDEPENDENT
    for (std::int64_t k = begin; k < end; ++k) r(pp[k], gg[k] * c, mm[k], vv[k]);
  }
};

template <class T, class Rule>
void apply(const Exec& exec, const Rule& rule, const View1<T>& p, const View1<const T>& g,
           T* m, T* v, double clip, const Verdict* verdict) {
  const Apply<T, Rule> apply{rule, p.data(), g.data(), m,
                             v,    clip,     verdict,  std::int64_t(p.size())};
  const std::int64_t blocks = (apply.count + apply.kRun - 1) / apply.kRun;
  Kokkos::parallel_for("kan::Optimizer::update",
                       Kokkos::RangePolicy<Exec>(exec, 0, blocks), apply);
}

// Eight running sums, so that the loop vectorises with a fixed order of additions.
template <class T>
struct ScaleAndSquare {
  T* g;
  double* partial;
  T factor;
  std::int64_t count;
  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
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

}  // namespace

std::int64_t norm_blocks(std::int64_t size) { return (size + kBlock - 1) / kBlock; }

template <class T>
void scale_and_square(const Exec& exec, const View1<T>& gradient, double factor,
                      const View1<double>& blocks) {
  Kokkos::parallel_for("kan::scale_and_square",
                       Kokkos::RangePolicy<Exec>(exec, 0, std::int64_t(blocks.size())),
                       ScaleAndSquare<T>{gradient.data(), blocks.data(), T(factor),
                                         std::int64_t(gradient.size())});
}

template <class T>
double scale_and_square(const Exec& exec, const View1<T>& gradient, double factor) {
  const std::int64_t blocks = norm_blocks(gradient.size());
  const View1<double> partial(
      Kokkos::view_alloc(exec, Kokkos::WithoutInitializing, "kan::scale_and_square"),
      blocks);
  scale_and_square(exec, gradient, factor, partial);
  exec.fence("kan::scale_and_square");
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), partial);
  for (std::int64_t step = 1; step < blocks; step *= 2)
    for (std::int64_t b = 0; b + step < blocks; b += 2 * step) host(b) += host(b + step);
  return blocks > 0 ? host(0) : 0;
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
void Optimizer<T>::update(const Exec& exec, const View1<T>& parameters,
                          const View1<const T>& gradient, double learning_rate,
                          double clip, const Verdict* verdict) {
  ++steps_;
  const OptimizerOptions& o = options_;
  T* const none = parameters.data();
  if (o.type == OptimizerKind::sgd) {
    if (moments_ == 1)
      apply(exec, MomentumRule<T>{T(learning_rate), T(o.momentum), T(o.weight_decay)},
            parameters, gradient, first_.data(), none, clip, verdict);
    else
      apply(exec, DescentRule<T>{T(learning_rate), T(o.weight_decay)}, parameters,
            gradient, none, none, clip, verdict);
    return;
  }
  const bool decoupled = o.type == OptimizerKind::adamw;
  AdamRule<T> rule;
  rule.rate = T(learning_rate / (1 - std::pow(o.beta1, double(steps_))));
  rule.beta1 = T(o.beta1);
  rule.beta2 = T(o.beta2);
  rule.epsilon = T(o.epsilon);
  rule.correction = T(1 / std::sqrt(1 - std::pow(o.beta2, double(steps_))));
  rule.decay_gradient = decoupled ? T(0) : T(o.weight_decay);
  rule.keep = decoupled ? T(1 - learning_rate * o.weight_decay) : T(1);
  apply(exec, rule, parameters, gradient, first_.data(), second_.data(), clip, verdict);
}

template <class T>
void Optimizer<T>::update(const Exec& exec, const View1<T>& parameters,
                          const View1<const T>& gradient, double learning_rate,
                          double clip) {
  update(exec, parameters, gradient, learning_rate, clip, nullptr);
}

template <class T>
void Optimizer<T>::update(const Exec& exec, const View1<T>& parameters,
                          const View1<const T>& gradient, double learning_rate,
                          const Verdict* verdict) {
  update(exec, parameters, gradient, learning_rate, 1, verdict);
}

template <class T>
void Optimizer<T>::reset(const Exec& exec) {
  Kokkos::deep_copy(exec, first_, T(0));
  Kokkos::deep_copy(exec, second_, T(0));
  steps_ = 0;
}

template class Optimizer<float>;
template class Optimizer<double>;
template double scale_and_square(const Exec&, const View1<float>&, double);
template void scale_and_square(const Exec&, const View1<float>&, double,
                               const View1<double>&);
template void scale_and_square(const Exec&, const View1<double>&, double,
                               const View1<double>&);
template double scale_and_square(const Exec&, const View1<double>&, double);

}  // namespace kan
