// A program that uses the installed library: a network's outputs at two points.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>

#include "kan/engine/engine.hpp"

int main() {
  const Kokkos::ScopeGuard guard;
  const kan::Exec exec;
  kan::NetworkOptions options;
  options.widths = {2, 5, 1};
  const kan::Network<double> network(kan::Shape(options), -1, 1);
  kan::initialize(network, kan::Initialization::pykan, 1);
  const auto engine = kan::make_engine(exec, network, kan::Kernels::automatic);
  engine->form(exec, network.parameters());
  const kan::View2<double> inputs("inputs", 2, 2), outputs("outputs", 2, 1);
  Kokkos::deep_copy(inputs, 0.25);
  kan::Batch<double> batch;
  batch.inputs = inputs;
  batch.size = 2;
  engine->evaluate(exec, batch, kan::LossKind::mse, outputs);
  exec.fence("consumer");
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), outputs);
  std::printf("%g %g\n", y(0, 0), y(1, 0));
  return std::isfinite(y(0, 0)) && y(0, 0) == y(1, 0) ? 0 : 1;
}
