#include "run/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "io/checkpoint.hpp"
#include "io/options.hpp"
#include "io/report.hpp"
#include "io/result_files.hpp"
#include "parallel/memory.hpp"
#include "run/banner.hpp"
#include "run/metrics.hpp"
#include "run/rows.hpp"
#include "run/start_checks.hpp"

namespace kan::run {
namespace {

// Training and test rows of one file (split_column), in the order of the file.
io::DataSet merge(const io::DataSet& a, const io::DataSet& b) {
  if (b.rows == 0) return a;
  if (a.rows == 0) return b;
  io::DataSet all = a;
  all.rows = a.rows + b.rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // row id, index
  for (std::int64_t r = 0; r < all.rows; ++r)
    order.emplace_back(r < a.rows ? a.row_id[r] : b.row_id[r - a.rows], r);
  std::sort(order.begin(), order.end());
  const auto take = [&](const std::vector<double>& va, const std::vector<double>& vb,
                        int columns, std::vector<double>& to) {
    to.clear();
    for (const auto& [id, r] : order) {
      const double* from = r < a.rows ? &va[r * columns] : &vb[(r - a.rows) * columns];
      to.insert(to.end(), from, from + columns);
    }
  };
  take(a.x, b.x, a.inputs, all.x);
  take(a.y, b.y, a.targets, all.y);
  all.row_id.clear();
  for (const auto& [id, r] : order) all.row_id.push_back(id);
  return all;
}

}  // namespace

template <class T>
int evaluate(Session& s) {
  const Exec exec;
  const NetworkOptions network_options = io::network_options(s.deck);
  const LossKind loss = io::train_options(s.deck).loss;
  const Shape shape(network_options);
  io::check_same_network(io::read_checkpoint_header(s.checkpoint), shape.all(),
                         shape.scale_trained());
  const TrainingState<T> stored = io::read_checkpoint<T>(s.checkpoint);
  io::DataOptions options = io::data_options(s.deck);
  options.validation = options.test = {};
  const io::Data data = io::load(options, io::data_shape(s.deck), stored.input_scaling,
                                 stored.target_scaling);
  check_data(*s.communicator, data);
  const io::DataSet set = merge(data.train, data.test);

  Network<T> network(shape, network_options.grid_low, network_options.grid_high);
  for (int l = 0; l < shape.layers(); ++l) network.set_knots(l, stored.grid[l]);
  network.pack(stored.parameters, network.parameters());
  const auto engine = make_engine(exec, network, network_options.kernels);
  engine->form(exec, network.parameters());

  MemoryInputs sizes;
  sizes.rows = set.rows;
  sizes.target_columns = target_columns(loss, shape.outputs());
  sizes.moments = 0;
  sizes.threads = s.launch.threads();
  sizes.bytes = sizeof(T);
  s.begin_results();
  s.log->line(banner(s, shape, engine->name(), 1, estimate_memory(shape, sizes)));

  const RowSet<T> rows = to_rows<T>(set);
  std::vector<T> prediction;
  parallel::PhaseTimer timer;
  timer.start();
  timer.enter(parallel::Phase::forward_backward);
  const SetMetrics metrics = measure_set(exec, *engine, *s.communicator, rows, loss,
                                         stored.target_scaling, &prediction);
  timer.stop();

  io::Report report;
  report.steps = stored.progress.step;
  report.epochs = stored.progress.epoch;
  report.samples = set.rows;
  report.wall_seconds = timer.elapsed();
  report.samples_per_second = double(set.rows) / timer.elapsed();
  report.test_loss = metrics.loss;
  report.test_accuracy = metrics.accuracy;
  report.test_rmse = metrics.rmse;
  report.parameters_trained = shape.parameters();
  report.parameters_pykan = shape.parameters_pykan();
  report.peak_memory_bytes = parallel::peak_resident_bytes();
  if (s.root()) {
    const int columns = set.targets;
    std::vector<T> target(set.y.size());
    for (std::size_t k = 0; k < target.size(); ++k) {
      const std::size_t c = k % columns;
      target[k] =
          T(loss == LossKind::cross_entropy ? set.y[k]
                                            : set.y[k] * stored.target_scaling.scale[c] +
                                                  stored.target_scaling.shift[c]);
    }
    const io::Moment moment{stored.progress.step, stored.progress.epoch,
                            stored.progress.samples_seen, stored.progress.elapsed,
                            io::Reason::final};
    const std::string path = s.directory->path(".h5");
    io::write_prediction(path, s.info, moment, std::span<const T>(prediction),
                         std::span<const T>(target), set.rows, shape.outputs());
    report.files = {path, s.directory->path(".report.json"), s.directory->path(".log")};
    io::write_report(s.directory->path(".report.json"), report, s.info);
    for (std::size_t l = 0; l < metrics.outside.size(); ++l)
      s.log->line(fmt::format("layer {}: {:.1f} % of the inputs outside the grid", l,
                              100 * metrics.outside[l]));
    s.log->line(io::report_text(report, s.info));
  }
  s.communicator->barrier();
  if (!std::isfinite(metrics.loss))
    throw Error(Code::numerical,
                "the loss is not finite: a row is far outside of what the precision can "
                "hold; the predictions were written");
  return 0;
}

template int evaluate<float>(Session&);
template int evaluate<double>(Session&);

}  // namespace kan::run
