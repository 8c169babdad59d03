// Runs an engine on plain vectors: what numerics tests compare.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "kan/engine/engine.hpp"
#include "kan/error.hpp"

namespace kan::test {

template <class T>
View2<T> to_view(const std::vector<double>& values, std::size_t rows,
                 std::size_t columns) {
  View2<T> view("kan::test::rows", rows, columns);
  const auto host = Kokkos::create_mirror_view(view);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) host(r, c) = T(values[r * columns + c]);
  Kokkos::deep_copy(view, host);
  return view;
}

template <class V>
std::vector<double> to_vector(const V& view) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + host.size()};
}

template <class T>
struct Result {
  double loss = 0;                                       ///< mean
  std::vector<double> output, gradient, input_gradient;  ///< of the mean loss
  std::vector<LayerArrays<T>> layers;                    ///< gradient by layer
  BatchSums sums;
};

/// x (rows, in), y (rows, columns); mean loss, its gradients and the outputs.
template <class T>
Result<T> run_engine(const Network<T>& network, std::unique_ptr<Engine<T>> engine,
                     LossKind loss, const std::vector<double>& x,
                     const std::vector<double>& y, int leaves) {
  const Exec exec;
  const Shape& shape = network.shape();
  const int columns = target_columns(loss, shape.outputs());
  const std::size_t rows = x.size() / shape.inputs();
  Batch<T> batch;
  batch.inputs = to_view<T>(x, rows, shape.inputs());
  batch.targets = to_view<T>(y, rows, columns);
  batch.size = std::int64_t(rows);
  batch.leaves = batch.last_leaf = leaves;
  const View2<T> output("output", rows, shape.outputs());
  const View2<T> input_gradient("input_gradient", rows, shape.inputs());
  const View1<T> gradient("gradient", shape.parameters());
  engine->form(exec, network.parameters());
  engine->evaluate(exec, batch, loss, output);
  Result<T> result;
  const double evaluated = engine->sums(exec).loss;
  engine->gradient(exec, batch, loss, input_gradient);
  engine->finish(exec, network.parameters(), engine->add(exec, 0, leaves), gradient);
  result.sums = engine->sums(exec);
  // Without slopes the compiler may round the basis differently in the last place.
  KAN_REQUIRE(!(std::abs(evaluated - result.sums.loss) > 1e-5 * std::abs(evaluated)),
              "evaluate and gradient disagree on the loss");
  const double terms = loss_terms(loss, double(rows), shape.outputs());
  result.loss = result.sums.loss / terms;
  result.output = to_vector(output);
  result.input_gradient = to_vector(input_gradient);
  result.layers = network.unpack(gradient);
  result.gradient = to_vector(gradient);
  for (auto* values : {&result.gradient, &result.input_gradient})
    for (double& v : *values) v /= terms;
  for (auto& a : result.layers)
    for (auto* values : {&a.coef, &a.scale_base, &a.scale_spline})
      for (T& v : *values) v = T(v / terms);
  return result;
}

template <class T>
Result<T> run_engine(const Network<T>& network, Kernels kernels, LossKind loss,
                     const std::vector<double>& x, const std::vector<double>& y,
                     int leaves = 1) {
  return run_engine(network, make_engine(Exec(), network, kernels), loss, x, y, leaves);
}

inline std::vector<double> random_values(std::size_t count, double low, double high,
                                         unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(count);
  for (double& v : values) v = uniform(random);
  return values;
}

}  // namespace kan::test
