// Optimizers: one kernel over the flat parameters, from the flat mean gradient g.
//   adam    m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2,
//           p -= lr / (1-b1^t) m / (sqrt(v) / sqrt(1-b2^t) + eps)      (Kingma and Ba
//           2014) weight_decay w adds w p to g
//   adamw   the same with p *= 1 - lr w instead                 (Loshchilov and Hutter
//   2017) sgd     m = mu m + g, p -= lr m; without momentum p -= lr g; w adds w p to g
// t counts updates since the state was empty. A new kind is an update rule and one line
// in apply() of optimizer.cpp.
#pragma once

#include <cstdint>

#include "kan/options.hpp"
#include "kan/outcome.hpp"
#include "kan/queue.hpp"
#include "kan/types.hpp"

namespace kan {

/// Queues: multiplies by factor in place; the squared norm of the result is summed in
/// fp64 over blocks of 1024 numbers: blocks[norm_blocks(size)].
template <class T>
void scale_and_square(const Queue& queue, const View1<T>& gradient, double factor,
                      double* blocks);
/// The same where kernels find the factor when they run.
template <class T>
void scale_and_square(const Queue& queue, const View1<T>& gradient, const double* factor,
                      double* blocks);
std::int64_t norm_blocks(std::int64_t size);
/// The sum of the blocks by a fixed tree, in place. Fences.
double add_blocks(const Exec& exec, const MessageView1<double>& blocks);

/// What an update rule takes from the learning rate and the number of the update.
struct Rates {
  double rate = 0, correction = 1, keep = 1;
};

template <class T>
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::int64_t parameters);

  /// One update; clip multiplies the gradient (1: not clipped).
  void update(const Queue& queue, const View1<T>& parameters,
              const View1<const T>& gradient, double learning_rate, double clip);
  /// The same in two parts: counts an update; and queues it, its rates, whether to make
  /// it, and the clip to be found by the kernel when it runs.
  Rates count(double learning_rate);
  void update(const Queue& queue, const View1<T>& parameters,
              const View1<const T>& gradient, const Rates* rates, const Verdict* verdict);

  /// Moments: 2 (adam, adamw), 1 (sgd with momentum) or 0.
  int moments() const { return moments_; }
  const View1<T>& first() const { return first_; }
  const View1<T>& second() const { return second_; }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// Moments and count as before the first update.
  void reset(const Exec& exec);

 private:
  OptimizerOptions options_;
  int moments_;
  View1<T> first_, second_;
  std::int64_t steps_ = 0;
};

extern template class Optimizer<float>;
extern template class Optimizer<double>;

}  // namespace kan
