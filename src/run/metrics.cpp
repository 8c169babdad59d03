#include "run/metrics.hpp"

#include <cmath>
#include <limits>

#include "io/dataset/scaling.hpp"

namespace kan::run {

template <class T>
SetMetrics measure_set(const Exec& exec, Engine<T>& engine,
                       parallel::Communicator& communicator, const RowSet<T>& set,
                       LossKind loss, const Scaling& target_scaling,
                       std::vector<T>* prediction) {
  const int out = engine.plan().layers.back().out;
  const View2<T> output("kan::run::output", set.rows(), out);
  const Metrics m = kan::evaluate(exec, engine, communicator, set, loss, output);
  SetMetrics metrics{m.loss, m.accuracy, std::numeric_limits<double>::quiet_NaN(),
                     m.outside};
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
  if (loss != LossKind::cross_entropy && set.targets.extent(1) > 0 && set.rows() > 0) {
    const auto target =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), set.targets);
    double sum = 0;
    for (std::int64_t r = 0; r < set.rows(); ++r)
      for (int o = 0; o < out; ++o) {
        const double e =
            (double(y(r, o)) - double(target(r, o))) * target_scaling.scale[o];
        sum += e * e;
      }
    metrics.rmse = std::sqrt(sum / (double(set.rows()) * out));
  }
  if (prediction) {
    prediction->assign(y.data(), y.data() + y.size());
    if (loss != LossKind::cross_entropy) io::unscale(target_scaling, *prediction);
  }
  return metrics;
}

template SetMetrics measure_set(const Exec&, Engine<float>&, parallel::Communicator&,
                                const RowSet<float>&, LossKind, const Scaling&,
                                std::vector<float>*);
template SetMetrics measure_set(const Exec&, Engine<double>&, parallel::Communicator&,
                                const RowSet<double>&, LossKind, const Scaling&,
                                std::vector<double>*);

}  // namespace kan::run
