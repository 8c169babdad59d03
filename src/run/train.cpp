#include "run/train.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "io/checkpoint.hpp"
#include "io/dataset/scaling.hpp"
#include "io/options.hpp"
#include "io/report.hpp"
#include "kan/engine/choice.hpp"
#include "kan/trainer.hpp"
#include "parallel/memory.hpp"
#include "parallel/signals.hpp"
#include "run/banner.hpp"
#include "run/metrics.hpp"
#include "run/rows.hpp"
#include "run/stream_metrics.hpp"
#include "run/training_data.hpp"
#include "run/training_observer.hpp"

namespace kan::run {
namespace {

// The form that trained a checkpoint is kept, unless the deck says otherwise.
Kernels kept_kernels(Kernels asked, const std::string& stored) {
  if (asked != Kernels::automatic || stored.empty()) return asked;
  if (stored.ends_with("/team")) return Kernels::team;
  return kHostExecution && stored.ends_with("/host") ? Kernels::host : asked;
}

// The engine asked for, else that of the checkpoint where its form runs here, else the
// one that is faster.
template <class T>
std::unique_ptr<Engine<T>> start_engine(Session& s, const Exec& exec,
                                        const Network<T>& network,
                                        const NetworkOptions& asked,
                                        const TrainOptions& options,
                                        const std::string& stored) {
  const Kernels kernels = kept_kernels(asked.kernels, stored);
  EngineKind kind = asked.engine;
  if (kind == EngineKind::automatic && kernels != Kernels::team)
    kind = engine_kind(stored);
  if (kind == EngineKind::automatic) {
    const std::int64_t rows = options.batch * options.accumulate / s.communicator->size();
    const EngineChoice choice =
        choose_engine(exec, network, kernels, options.loss, options.reproducible, rows,
                      *s.communicator);
    kind = choice.kind;
    if (!choice.why.empty())
      s.log->line(fmt::format("engine {}: {}",
                              kind == EngineKind::layer ? "layer" : "tile", choice.why));
  }
  return make_engine(exec, network, kernels, kind);
}

int moments_of(const OptimizerOptions& o) {
  return o.type != OptimizerKind::sgd ? 2 : o.momentum != 0 ? 1 : 0;
}

// rows: of all sets that are kept; training: of the training set; window: bytes for
// streamed rows.
MemoryEstimate estimate(const Session& s, const Shape& shape, const TrainOptions& options,
                        std::int64_t rows, std::int64_t training, std::int64_t window,
                        int bytes) {
  MemoryInputs in;
  in.rows = rows;
  in.window_bytes = window;
  in.target_columns = target_columns(options.loss, shape.outputs());
  in.moments = moments_of(options.optimizer);
  in.threads = s.launch.threads();
  in.leaves = leaves_for(options, std::max<std::int64_t>(training, 1), s.info.ranks,
                         in.threads, shape);
  in.bytes = bytes;
  const MemoryEstimate memory = estimate_memory(shape, in);
  check_memory(memory, s.local_ranks);
  return memory;
}

// rmse of streamed training rows.
template <class T>
double measure_training(Session& s, const Exec& exec, Engine<T>& engine,
                        const TrainingData& source, LossKind loss,
                        const DataFacts& facts) {
  if (loss == LossKind::cross_entropy) return std::numeric_limits<double>::quiet_NaN();
  io::StreamReader reader(source.options, source.shape);
  StreamedSet set{reader, source.stream.chunks, facts.input_scaling,
                  facts.target_scaling};
  // Beside the windows of the training.
  const std::int64_t most = rows_at_once(source.options.replicate_below / 4,
                                         source.shape.inputs + source.shape.targets,
                                         engine.plan().layers.back().out, sizeof(T));
  return measure_stream(exec, engine, *s.communicator, set, loss, most).rmse;
}

}  // namespace

template <class T>
int train(Session& s) {
  const Exec exec;
  const NetworkOptions network_options = io::network_options(s.deck);
  const TrainOptions options = io::train_options(s.deck);
  const Shape shape(network_options);
  const std::int64_t made = io::data_options(s.deck).rows;
  estimate(s, shape, options, made, made, 0, sizeof(T));

  // The checkpoint's scaling stays: its parameters were trained with it.
  TrainingState<T> stored;
  const bool restart = !s.checkpoint.empty();
  if (restart) {
    io::check_same_network(io::read_checkpoint_header(s.checkpoint), shape.all(),
                           shape.scale_trained());
    stored = io::read_checkpoint<T>(s.checkpoint);
  }
  TrainingData source = load_training_data<T>(s, options, restart ? &stored : nullptr);
  io::Data& data = source.data();
  if (source.options.source == "csv" && source.options.inputs.empty() &&
      data.train.has_names)
    s.info.deck = kept_deck(s.deck, s.sources, data.train.input_names);
  const MemoryEstimate memory = estimate(
      s, shape, options, data.train.rows + data.validation.rows + data.test.rows,
      source.training_rows(), source.window_bytes(s.info.ranks, sizeof(T)), sizeof(T));

  Network<T> network(shape, network_options.grid_low, network_options.grid_high);
  for (std::size_t l = 0; l < stored.grid.size(); ++l)
    network.set_knots(int(l), stored.grid[l]);
  if (!restart) initialize(network, network_options.initialization, options.seed);
  const auto engine =
      start_engine(s, exec, network, network_options, options, stored.engine);

  const DataFacts facts{data.input_scaling, data.target_scaling, data.digest};
  const RowSet<T> rows = to_rows<T>(data.train);
  const RowSet<T> validation = to_rows<T>(data.validation);
  const RowSet<T> test = to_rows<T>(data.test);
  for (io::DataSet* set : {&data.train, &data.validation, &data.test}) *set = {};
  const RowSet<T>& predicted = test.rows() > 0         ? test
                               : validation.rows() > 0 ? validation
                                                       : rows;
  parallel::PhaseTimer timer;
  const auto feed =
      make_feed<T>(source, rows, options,
                   rank_parts(options, source.training_rows(), s.communicator->size(),
                              exec.concurrency(), shape),
                   *s.communicator);
  Trainer<T> trainer(exec, network, *engine, *s.communicator, options, *feed, validation,
                     timer, restart ? &stored : nullptr);
  s.begin_results();
  s.log->line(
      banner(s, shape, engine->name(), trainer.leaves(), trainer.recorded(), memory));
  TrainingObserver<T> observer(s, options, facts, predicted, shape.layers(),
                               trainer.progress());
  TrainResult result;
  try {
    result = trainer.run(observer);
  } catch (const Error& error) {
    observer.save_history(trainer.progress());
    if (error.code() != Code::numerical) throw;
    throw Error(Code::numerical,
                std::string(error.what()) +
                    (observer.last_checkpoint().empty()
                         ? ""
                         : "; last good checkpoint: " + observer.last_checkpoint()));
  }
  if (result.steps == 0)
    s.log->note(
        fmt::format("nothing to do: {} epochs and {} steps are done; raise run/epochs "
                    "or run/steps",
                    trainer.progress().epoch, trainer.progress().step));
  const std::vector<std::string> files = observer.finish(trainer, result.reason);

  io::Report report;
  report.exit_reason = name_of(result.reason);
  const bool stopped = result.reason == ExitReason::walltime ||
                       result.reason == ExitReason::signal ||
                       result.reason == ExitReason::stop_now;
  report.exit_code = int(stopped ? Code::stopped : Code::done);
  report.steps = trainer.progress().step;
  report.epochs = trainer.progress().epoch;
  report.samples = result.rows;
  report.wall_seconds = result.seconds;
  if (result.seconds > 0)
    report.samples_per_second = double(result.rows) / result.seconds;
  if (result.steady_rate > 0) report.steady_samples_per_second = result.steady_rate;
  const auto measure = [&](const RowSet<T>& set, double& loss, double& accuracy,
                           double& rmse) {
    if (set.rows() == 0) return;
    const SetMetrics m = measure_set(exec, *engine, *s.communicator, set, options.loss,
                                     facts.target_scaling);
    loss = m.loss;
    if (!std::isfinite(m.loss))
      s.log->warning(
          "the loss of a set of rows is not finite: a row is far outside of what "
          "the precision can hold");
    accuracy = m.accuracy;
    rmse = m.rmse;
  };
  double unused = 0;
  if (source.streamed())
    report.train_rmse = measure_training(s, exec, *engine, source, options.loss, facts);
  else
    measure(rows, unused, unused, report.train_rmse);
  measure(validation, report.validation_loss, report.validation_accuracy,
          report.validation_rmse);
  measure(test, report.test_loss, report.test_accuracy, report.test_rmse);
  const auto last = result.last_epoch ? result.last_epoch : observer.last_epoch();
  if (last) {
    report.train_loss = last->train_loss;
    report.train_accuracy = last->train_accuracy;
  }
  report.parameters_trained = shape.parameters();
  report.parameters_pykan = shape.parameters_pykan();
  const parallel::CallTimes& sums = trainer.sums();
  if (s.info.ranks > 1 && sums.calls() > 0) {
    report.sums = sums.calls();
    report.sum_bytes = trainer.sum_bytes();
    report.sum_shortest = sums.shortest();
    report.sum_median = sums.median();
    report.sum_longest = sums.longest();
  }
  double peak = double(parallel::peak_resident_bytes());
  s.communicator->allreduce_max(std::span<double>(&peak, 1));
  report.peak_memory_bytes = std::int64_t(peak);
  const parallel::PhaseTable phases = timer.summarize(*s.communicator);
  for (std::size_t p = 0; p < parallel::kPhases; ++p)
    report.phases.push_back(
        {parallel::kPhaseNames[p],
         {phases.phases[p].min, phases.phases[p].mean, phases.phases[p].max}});
  if (s.root()) {
    report.files = files;
    report.files.push_back(s.directory->path(".report.json"));
    report.files.push_back(s.directory->path(".log"));
    io::write_report(s.directory->path(".report.json"), report, s.info);
    s.log->line(io::report_text(report, s.info));
  }
  s.communicator->barrier();
  return report.exit_code;
}

template int train<float>(Session&);
template int train<double>(Session&);

}  // namespace kan::run
