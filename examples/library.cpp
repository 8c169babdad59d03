// The library without a deck: make a network, give it parameters, evaluate it on rows.
// All coefficients are 1 and the base function is off, so that every edge is the sum of
// its B-splines: 1 inside the grid. Two inputs give 2, whatever they are.
#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#include "kan/engine/engine.hpp"

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  kan::NetworkOptions options;
  options.widths = {2, 3};  // one layer, two inputs, three outputs
  options.grid = {8};
  options.grid_low = 0;
  options.base = {kan::Base::none};
  const kan::Shape shape(options);
  const kan::Network<float> network(shape, options.grid_low, options.grid_high);

  // Per layer, in the order of the files: coef (in, out, G+k). From a seed:
  // kan::initialize(network, kan::Initialization::pykan, 1).
  std::vector<kan::LayerArrays<float>> arrays(shape.layers());
  arrays[0].coef.assign(2 * 3 * shape.coefficients(0), 1.0F);
  network.pack(arrays, network.parameters());

  const kan::Exec exec;
  const auto engine = kan::make_engine(exec, network, kan::Kernels::automatic);
  engine->form(exec, network.parameters());  // after every change of the parameters

  const int rows = 1000;
  const kan::View2<float> inputs("inputs", rows, 2), outputs("outputs", rows, 3);
  Kokkos::deep_copy(inputs, 0.3F);
  kan::Batch<float> batch;
  batch.inputs = inputs;
  batch.size = rows;
  engine->evaluate(exec, batch, kan::LossKind::mse, outputs);  // no targets: no loss

  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), outputs);
  std::printf("%s: y(0) = %.6f %.6f %.6f\n", engine->name().c_str(), y(0, 0), y(0, 1),
              y(0, 2));
  for (int r = 0; r < rows; ++r)
    for (int o = 0; o < 3; ++o)
      if (!(std::abs(y(r, o) - 2) < 1e-5F)) return 1;
  return 0;
}
