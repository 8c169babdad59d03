#include "run/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "io/checkpoint.hpp"
#include "io/options.hpp"
#include "io/report.hpp"
#include "io/result_files.hpp"
#include "parallel/memory.hpp"
#include "run/banner.hpp"
#include "run/metrics.hpp"
#include "run/rows.hpp"
#include "run/start_checks.hpp"
#include "run/stream_metrics.hpp"

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

struct Evaluated {
  SetMetrics metrics{};
  std::int64_t rows = 0;
  double seconds = 0;
};

// What an evaluation works with, whatever the way of its rows.
template <class T>
struct Evaluation {
  Session& s;
  const TrainingState<T>& stored;
  const io::DataOptions& options;
  const io::DataShape& shape;
  LossKind loss;
  Engine<T>& engine;
  std::function<void(MemoryInputs)> announce;  ///< the banner

  std::string path() const { return s.directory->path(".h5"); }
  io::Moment moment() const {
    const Progress& p = stored.progress;
    return {p.step, p.epoch, p.samples_seen, p.elapsed, io::Reason::final};
  }
  Evaluated kept(const Exec& exec) const;
  Evaluated streamed(const Exec& exec) const;
};

template <class T>
Evaluated Evaluation<T>::kept(const Exec& exec) const {
  const io::Data data =
      io::load(options, shape, stored.input_scaling, stored.target_scaling);
  check_data(*s.communicator, data);
  const io::DataSet set = merge(data.train, data.test);
  announce({.rows = set.rows});
  const RowSet<T> rows = to_rows<T>(set);
  std::vector<T> prediction;
  parallel::PhaseTimer timer;
  timer.start();
  Evaluated out{.rows = set.rows};
  out.metrics = measure_set(exec, engine, *s.communicator, rows, loss,
                            stored.target_scaling, &prediction);
  timer.stop();
  out.seconds = timer.elapsed();
  if (!s.root()) return out;
  const int columns = set.targets;
  std::vector<T> target(set.y.size());
  for (std::size_t k = 0; k < target.size(); ++k) {
    const std::size_t c = k % columns;
    target[k] =
        T(loss == LossKind::cross_entropy ? set.y[k]
                                          : set.y[k] * stored.target_scaling.scale[c] +
                                                stored.target_scaling.shift[c]);
  }
  io::write_prediction(path(), s.info, moment(), std::span<const T>(prediction),
                       std::span<const T>(target), set.rows,
                       engine.plan().layers.back().out);
  return out;
}

// Some rows at a time; the predictions go to their file as they are made.
template <class T>
Evaluated Evaluation<T>::streamed(const Exec& exec) const {
  io::StreamReader reader(options, shape);
  StreamedSet set{reader,
                  {{reader.range().begin, reader.range().end - reader.range().begin}},
                  stored.input_scaling,
                  stored.target_scaling};
  const std::int64_t columns = shape.inputs + shape.targets,
                     out_columns = engine.plan().layers.back().out;
  const std::int64_t most =
      rows_at_once(options.replicate_below, columns, out_columns, sizeof(T));
  announce({.window_bytes = options.replicate_below});
  Evaluated out{.rows = set.blocks[0].rows};
  s.log->line(fmt::format("data: {} rows are streamed, {} at a time", out.rows,
                          std::min(most, out.rows)));
  std::optional<io::PredictionFile<T>> file;
  if (s.root())
    file.emplace(path(), s.info, moment(), out.rows, out_columns, shape.targets);
  const UseRows<T> write = [&](std::int64_t rows, std::span<const T> prediction,
                               std::span<const T> target) {
    if (file) file->add(rows, prediction, target);
  };
  parallel::PhaseTimer timer;
  timer.start();
  out.metrics = measure_stream(exec, engine, *s.communicator, set, loss, most, write);
  timer.stop();
  out.seconds = timer.elapsed();
  if (file) file->finish();
  return out;
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
  const io::DataShape data_shape = io::data_shape(s.deck);

  Network<T> network(shape, network_options.grid_low, network_options.grid_high);
  for (int l = 0; l < shape.layers(); ++l) network.set_knots(l, stored.grid[l]);
  network.pack(stored.parameters, network.parameters());
  const auto engine = make_engine(exec, network, network_options.kernels);
  engine->form(exec, network.parameters());

  const auto announce = [&](MemoryInputs sizes) {
    sizes.target_columns = target_columns(loss, shape.outputs());
    sizes.moments = 0;
    sizes.threads = s.launch.threads();
    sizes.bytes = sizeof(T);
    s.begin_results();
    s.log->line(
        banner(s, shape, engine->name(), 1, false, estimate_memory(shape, sizes)));
  };
  const Evaluation<T> evaluation{s, stored, options, data_shape, loss, *engine, announce};
  const Evaluated done = io::must_stream(options, data_shape, *s.communicator)
                             ? evaluation.streamed(exec)
                             : evaluation.kept(exec);
  const SetMetrics& metrics = done.metrics;

  io::Report report;
  report.steps = stored.progress.step;
  report.epochs = stored.progress.epoch;
  report.samples = done.rows;
  report.wall_seconds = done.seconds;
  report.samples_per_second = double(done.rows) / done.seconds;
  report.test_loss = metrics.loss;
  report.test_accuracy = metrics.accuracy;
  report.test_rmse = metrics.rmse;
  report.parameters_trained = shape.parameters();
  report.parameters_pykan = shape.parameters_pykan();
  report.peak_memory_bytes = parallel::peak_resident_bytes();
  if (s.root()) {
    report.files = {evaluation.path(), s.directory->path(".report.json"),
                    s.directory->path(".log")};
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
