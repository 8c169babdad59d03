#include "bench/bench_training.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <random>

#include "kan/engine/choice.hpp"
#include "kan/trainer.hpp"
#include "parallel/memory.hpp"
#include "support/run_engine.hpp"

namespace kan::bench {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// The peak so far is forgotten (Linux), so that what follows can be told from it. Memory
// that was freed goes back first: what takes its place would not count.
std::int64_t restart_peak_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << "5";
  return parallel::peak_resident_bytes();
}

// Stops every run after so many updates; keeps their records as a history does.
template <class T>
class Recorder final : public Observer<T> {
 public:
  void start(std::int64_t updates) {
    left_ = updates;
    records_.clear();
  }
  double loss() const { return records_.back().loss; }
  parallel::StopFlags flags() override {
    parallel::StopFlags flags;
    flags.stop_now = --left_ == 0;
    return flags;
  }
  void on_step(const StepRecord& record) override { records_.push_back(record); }
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<T>&, bool, bool, const parallel::StopFlags&) override {}

 private:
  std::int64_t left_ = 0;
  std::vector<StepRecord> records_;
};

// Inner knots at quantiles of a normal sample, the same for every input; the ends of the
// grid stay where they are.
std::vector<double> quantile_knots(const LayerShape& layer) {
  const int G = layer.grid, k = layer.order;
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 0.4);
  std::vector<double> sample;
  while (sample.size() < 10000)
    if (const double x = normal(random); std::abs(x) < 1) sample.push_back(x);
  std::sort(sample.begin(), sample.end());
  std::vector<double> row = uniform_knots(-1, 1, G, k), all;
  for (int j = 1; j < G; ++j) row[k + j] = sample[j * sample.size() / G];
  for (int i = 0; i < layer.in; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

template <class T>
class TrainingOf final : public Training {
 public:
  TrainingOf(parallel::Communicator& communicator, const Case& c, const How& how)
      : rows_(rows(c, how.batches)),
        network_(Shape(c.network()), -1, 1),
        feed_(rows_, 1, true) {
    if (c.knots == Grid::quantile)
      for (int l = 0; l < network_.shape().layers(); ++l)
        network_.set_knots(l, quantile_knots(network_.shape().layer(l)));
    initialize(network_, Initialization::pykan, 1);
    const EngineKind kind =
        how.engine != EngineKind::automatic
            ? how.engine
            : choose_engine(exec_, network_, how.kernels, LossKind::mse, c.reproducible,
                            c.batch, communicator)
                  .kind;
    engine_ = make_engine(exec_, network_, how.kernels, kind);
    TrainOptions options;
    options.batch = c.batch;
    options.reproducible = c.reproducible;
    trainer_ = std::make_unique<Trainer<T>>(exec_, network_, *engine_, communicator,
                                            options, feed_, none_, timer_, nullptr);
  }

  Time run(std::int64_t updates) override {
    recorder_.start(updates);
    timer_.reset();
    const double cpu = thread_seconds();
    const TrainResult result = trainer_->run(recorder_);
    using parallel::Phase;
    return {result.seconds, thread_seconds() - cpu,
            timer_.seconds(Phase::data) + timer_.seconds(Phase::output) +
                timer_.seconds(Phase::other)};
  }
  std::string engine() const override { return engine_->name(); }
  int leaves() const override { return trainer_->leaves(); }
  double loss() const override { return recorder_.loss(); }
  std::int64_t memory() const override {
    return parallel::peak_resident_bytes() - memory_before_;
  }

 private:
  static RowSet<T> rows(const Case& c, int batches) {
    const int in = c.widths.front(), out = c.widths.back();
    const std::int64_t most = (std::int64_t{64} << 20) / (8 * in);
    const std::int64_t count =
        batches > 0 ? batches * c.batch
        : c.full    ? c.batch
                    : std::max(8 * c.batch,
                               std::min<std::int64_t>(131072, most) / c.batch * c.batch);
    return {test::to_view<T>(test::random_values(count * in, -1, 1, 1), count, in),
            test::to_view<T>(test::random_values(count * out, -1, 1, 2), count, out)};
  }

  // In this order: everything but the rows counts as memory of the training.
  RowSet<T> rows_, none_;
  std::int64_t memory_before_ = restart_peak_memory();
  Exec exec_;
  Network<T> network_;
  ResidentFeed<T> feed_;
  parallel::PhaseTimer timer_;
  Recorder<T> recorder_;
  std::unique_ptr<Engine<T>> engine_;
  std::unique_ptr<Trainer<T>> trainer_;
};

}  // namespace

std::unique_ptr<Training> make_training(parallel::Communicator& communicator,
                                        const Case& c, const How& how) {
  if (c.fp64) return std::make_unique<TrainingOf<double>>(communicator, c, how);
  return std::make_unique<TrainingOf<float>>(communicator, c, how);
}

}  // namespace kan::bench
