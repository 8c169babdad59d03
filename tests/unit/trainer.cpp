// The training loop without decks or files: what restarts, accumulation, threads and
// leaves must not change, and how it ends.
#include "kan/trainer.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "kan/error.hpp"
#include "kan/row_order.hpp"
#include "support/run_engine.hpp"

using namespace kan;

namespace {

template <class T>
struct Recorder final : Observer<T> {
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<TrainingState<T>> states;
  std::int64_t stop_after = -1, save_at = -1;

  parallel::StopFlags flags() override {
    parallel::StopFlags f;
    f.signal_stop = stop_after >= 0 && std::int64_t(steps.size()) + 1 >= stop_after;
    return f;
  }
  void on_step(const StepRecord& r) override { steps.push_back(r); }
  void on_epoch(const EpochRecord& r, bool) override { epochs.push_back(r); }
  void on_boundary(Trainer<T>& t, bool, bool, const parallel::StopFlags&) override {
    if (t.progress().step == save_at) states.push_back(t.state());
  }
};

struct Setup {
  TrainOptions options;
  NetworkOptions network;
  std::int64_t rows = 1003, validation_rows = 0;
  Kernels kernels = Kernels::host;
};

template <class T>
struct Run {
  Recorder<T> recorder;
  TrainResult result;
  TrainingState<T> final;
  int leaves = 0;
};

template <class T>
RowSet<T> make_rows(std::int64_t rows, int in, int out, unsigned seed) {
  const auto x = test::random_values(rows * in, -2, 2, seed);
  std::vector<double> y(rows * out);
  for (std::int64_t r = 0; r < rows; ++r)
    for (int o = 0; o < out; ++o) y[r * out + o] = x[r * in] * x[r * in] + 0.1 * o;
  return {test::to_view<T>(x, rows, in), test::to_view<T>(y, rows, out)};
}

template <class T>
Run<T> train(const Setup& s, const TrainingState<T>* stored = nullptr,
             std::int64_t save_at = -1, std::int64_t stop_after = -1) {
  const Exec exec;
  const auto communicator = parallel::make_communicator({.backend = "serial"});
  Network<T> network(Shape(s.network), -1, 1);
  initialize(network, Initialization::pykan, s.options.seed);
  const auto engine = make_engine(exec, network, s.kernels);
  const int in = network.shape().inputs(), out = network.shape().outputs();
  const RowSet<T> rows = make_rows<T>(s.rows, in, out, 1);
  const RowSet<T> validation = make_rows<T>(s.validation_rows, in, out, 2);
  parallel::PhaseTimer timer;
  ResidentFeed<T> feed(rows, s.options.seed, s.options.shuffle);
  Trainer<T> trainer(exec, network, *engine, *communicator, s.options, feed, validation,
                     timer, stored);
  Run<T> run;
  run.recorder.save_at = save_at;
  run.recorder.stop_after = stop_after;
  run.result = trainer.run(run.recorder);
  run.final = trainer.state();
  run.leaves = trainer.leaves();
  return run;
}

Setup small() {
  Setup s;
  s.network.widths = {2, 16, 2};
  s.network.grid = {6};
  s.network.spline_scale = SplineScale::trained;
  s.options.batch = 101;
  s.options.epochs = 3;
  s.options.optimizer.learning_rate = 1e-2;
  return s;
}

template <class T>
bool same(const std::vector<LayerArrays<T>>& a, const std::vector<LayerArrays<T>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t l = 0; l < a.size(); ++l)
    if (a[l].coef != b[l].coef || a[l].scale_base != b[l].scale_base ||
        a[l].scale_spline != b[l].scale_spline)
      return false;
  return true;
}

template <class T>
bool same(const TrainingState<T>& a, const TrainingState<T>& b) {
  return same(a.parameters, b.parameters) && same(a.first_moment, b.first_moment) &&
         same(a.second_moment, b.second_moment) && a.progress.step == b.progress.step &&
         a.progress.position == b.progress.position &&
         a.progress.epoch_loss_sum == b.progress.epoch_loss_sum;
}

}  // namespace

TEST_CASE("training lowers the loss, and the last batch of an epoch may be short") {
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    Setup s = small();
    s.kernels = kernels;
    s.options.epochs = 20;
    s.validation_rows = 200;
    const auto run = train<float>(s);
    CHECK(run.result.steps == 20 * 10);
    CHECK(run.result.rows == 20 * 1003);
    REQUIRE(run.recorder.epochs.size() == 20);
    CHECK(run.recorder.epochs.back().train_loss <
          0.1 * run.recorder.epochs.front().train_loss);
    CHECK(run.recorder.epochs.back().validation_loss < 0.1);
    CHECK(std::isnan(run.recorder.epochs.back().train_accuracy));
    CHECK(run.recorder.steps[10].epoch == 1);
    CHECK(run.result.reason == ExitReason::done);
    // The epoch's loss is the mean of its batch losses, weighted by rows.
    double sum = 0;
    for (int k = 0; k < 10; ++k) sum += run.recorder.steps[k].loss * (k < 9 ? 101 : 94);
    CHECK(std::abs(sum / 1003 - run.recorder.epochs[0].train_loss) < 1e-6);
  }
}

TEST_CASE("a restarted run has the bits of an undisturbed one") {
  for (Kernels kernels : {Kernels::host, Kernels::team})
    for (OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::sgd})
      for (std::int64_t at : {1, 9, 10, 17}) {  // within an epoch, and at its end
        Setup s = small();
        s.kernels = kernels;
        s.options.optimizer.type = kind;
        s.options.optimizer.momentum = kind == OptimizerKind::sgd ? 0.9 : 0;
        const auto straight = train<float>(s, nullptr, at);
        REQUIRE(straight.recorder.states.size() == 1);
        const auto rest = train<float>(s, &straight.recorder.states[0]);
        CHECK(same(straight.final, rest.final));
        CHECK(straight.recorder.epochs.back().train_loss ==
              rest.recorder.epochs.back().train_loss);
        CHECK(straight.recorder.epochs.back().outside ==
              rest.recorder.epochs.back().outside);
        CHECK(std::int64_t(rest.recorder.steps.size()) == 30 - at);
        CHECK(rest.recorder.steps[0].loss == straight.recorder.steps[at].loss);
      }
}

TEST_CASE("a restart with another batch ends at the epoch asked for") {
  Setup s = small();
  const auto first = train<float>(s, nullptr, 14);
  s.options.batch = 250;
  const auto rest = train<float>(s, &first.recorder.states[0]);
  CHECK(rest.final.progress.epoch == 3);
  CHECK(rest.final.progress.position == 0);
  CHECK(rest.result.steps == 3 + 5);  // 599 rows of epoch 1, then 1003
}

TEST_CASE("accumulated pieces are one larger batch") {
  Setup s = small();
  s.options.batch = 50;
  s.options.accumulate = 4;
  const auto pieces = train<double>(s);
  s.options.batch = 200;
  s.options.accumulate = 1;
  const auto whole = train<double>(s);
  CHECK(same(pieces.final, whole.final));
  CHECK(pieces.result.steps == 3 * 6);
}

TEST_CASE("reproducible mode: leaves come from the batch, not from threads") {
  Setup s = small();
  s.options.batch = 512;
  s.options.reproducible = true;
  CHECK(train<float>(s).leaves == 8);
  NetworkOptions network;
  network.widths = {2, 64, 1};
  const Shape shape(network);
  CHECK(leaves_for(s.options, 100000, 1, 1, shape) ==
        leaves_for(s.options, 100000, 1, 7, shape));
  s.options.reproducible = false;
  CHECK(leaves_for(s.options, 100000, 1, 2, shape) >= 2);
  CHECK(leaves_for(s.options, 3, 1, 64, shape) == 1);
  // Another number of leaves is another sum: a reproducible restart refuses it.
  s.options.reproducible = true;
  const auto run = train<float>(s, nullptr, 2);
  s.options.shard_rows = 128;
  CHECK_THROWS_AS(train<float>(s, &run.recorder.states[0]), Error);
}

TEST_CASE("a run stops at limits, targets and signals") {
  Setup s = small();
  s.options.steps = 7;
  CHECK(train<float>(s).result.steps == 7);
  s.options.steps = -1;
  const auto signal = train<float>(s, nullptr, -1, 5);
  CHECK(signal.result.reason == ExitReason::signal);
  CHECK(signal.result.steps == 5);
  s.options.epochs = 50;
  s.options.target_loss = 0.5;
  const auto target = train<float>(s);
  CHECK(target.result.reason == ExitReason::target_loss);
  CHECK(target.recorder.epochs.back().train_loss <= 0.5);
  Setup met = s;
  s.options.target_loss = 0;
  s.options.patience = 2;
  s.options.optimizer.learning_rate = 0;
  s.options.optimizer.type = OptimizerKind::sgd;
  s.options.shuffle = false;
  const auto patience = train<float>(s);
  CHECK(patience.result.reason == ExitReason::patience);
  CHECK(patience.recorder.epochs.size() == 3);
  // Started again, the runs that ended early do not go on, others do.
  for (const auto& [ended, setup] :
       {std::pair(&target, &met), std::pair(&patience, &s)}) {
    const auto again = train<float>(*setup, &ended->final);
    CHECK(again.result.reason == ended->result.reason);
    CHECK(again.result.steps == 0);
    CHECK(same(again.final, ended->final));
  }
  s.options.patience = 3;
  CHECK(train<float>(s, &patience.final).recorder.epochs.size() == 1);
  met.options.target_loss /= 2;
  CHECK(train<float>(met, &target.final).result.steps > 0);
}

TEST_CASE("a loss that is not finite ends the run before the parameters are touched") {
  Setup s = small();
  s.options.optimizer.type = OptimizerKind::sgd;
  s.options.optimizer.learning_rate = 1e30;
  s.options.epochs = 100;
  try {
    train<float>(s);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == Code::numerical);
    CHECK(std::string(error.what()).find("learning_rate") != std::string::npos);
  }
}

TEST_CASE("clipping bounds the step of plain descent") {
  Setup s = small();
  s.options.optimizer.type = OptimizerKind::sgd;
  s.options.optimizer.learning_rate = 1;
  s.options.optimizer.clip_norm = 1e-3;
  s.options.steps = 1;
  Setup none = s;
  none.options.optimizer.learning_rate = 0;
  const auto moved = train<double>(s), still = train<double>(none);
  CHECK(moved.recorder.steps[0].gradient_norm > 1e-3);
  double square = 0;
  for (std::size_t l = 0; l < 2; ++l) {
    const auto add = [&](const std::vector<double>& a, const std::vector<double>& b) {
      for (std::size_t k = 0; k < a.size(); ++k) square += (a[k] - b[k]) * (a[k] - b[k]);
    };
    add(moved.final.parameters[l].coef, still.final.parameters[l].coef);
    add(moved.final.parameters[l].scale_base, still.final.parameters[l].scale_base);
    add(moved.final.parameters[l].scale_spline, still.final.parameters[l].scale_spline);
  }
  CHECK(std::abs(std::sqrt(square) - 1e-3) < 1e-12);
}

TEST_CASE("the order of rows is a permutation of (seed, epoch) alone") {
  for (std::int64_t rows : {0, 1, 2, 3, 1000, 1001}) {
    const auto a = row_order(1, 0, rows, true);
    std::vector<bool> seen(rows, false);
    for (std::uint32_t r : a) {
      REQUIRE(r < rows);
      REQUIRE(!seen[r]);
      seen[r] = true;
    }
  }
  CHECK(row_order(1, 0, 1000, true) == row_order(1, 0, 1000, true));
  CHECK(row_order(1, 0, 1000, true) != row_order(1, 1, 1000, true));
  CHECK(row_order(1, 0, 1000, true) != row_order(2, 0, 1000, true));
  // Each row is as likely in the first place as any other: 20000 draws of 10 rows.
  std::vector<int> first(10, 0);
  for (int epoch = 0; epoch < 20000; ++epoch) ++first[row_order(3, epoch, 10, true)[0]];
  for (int count : first) CHECK(std::abs(count - 2000) < 5 * std::sqrt(1800.0));
}

TEST_CASE("initial values follow the peers' distributions and depend on the seed alone") {
  NetworkOptions options;
  options.widths = {50, 40};
  options.grid = {8};
  options.spline_scale = SplineScale::trained;
  for (Initialization kind : {Initialization::pykan, Initialization::efficient_kan}) {
    const Network<double> a(Shape(options), -1, 1), b(Shape(options), -3, 2);
    initialize(a, kind, 5);
    initialize(b, kind, 5);
    const auto arrays = a.unpack(a.parameters());
    CHECK(same(arrays, b.unpack(b.parameters())));
    const double width = 1 / std::sqrt(50.0);
    double low = 1, high = -1, square = 0;
    for (double v : arrays[0].scale_base) {
      low = std::min(low, v);
      high = std::max(high, v);
      square += v * v;
    }
    CHECK(low >= -width);
    CHECK(high <= width);
    CHECK(std::abs(square / 2000 - width * width / 3) < 0.1 * width * width / 3);
    const bool pykan = kind == Initialization::pykan;
    for (double v : arrays[0].scale_spline)
      CHECK((pykan ? v == width : std::abs(v) <= width));
    // The spline meets U(-1/2, 1/2) noise / G at the interior knots: its variance there.
    const double noise = (pykan ? 0.3 : 0.1) / 8;
    double sum = 0;
    for (std::size_t e = 0; e < 2000; ++e) {
      const double* c = &arrays[0].coef[e * 11];
      const double value = (c[4] + 4 * c[5] + c[6]) / 6;  // cubic, at an interior knot
      CHECK(std::abs(value) <= noise / 2 + 1e-12);
      sum += value * value;
    }
    CHECK(std::abs(sum / 2000 - noise * noise / 12) < 0.1 * noise * noise / 12);
  }
}
