// Updates that are recorded as a graph, against the same kernels launched one by one, bit
// for bit: every optimizer, clipping, a schedule, leaves, the short batch at the end of
// an epoch, validation that moves the engine's buffers, rows whose place changes from
// batch to batch, averages, a restart, and a loss that is not finite.
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "kan/error.hpp"
#include "kan/trainer.hpp"
#include "support/run_engine.hpp"

using namespace kan;

namespace {

enum class Way { prompt, plain, recorded };  // outcomes at once, late, late from a graph

// Two copies of the rows, one of them in reverse with an order: batches take turns.
template <class T>
class TurningFeed final : public RowFeed<T> {
 public:
  TurningFeed(const std::vector<double>& x, const std::vector<double>& y) {
    const std::int64_t rows = std::int64_t(y.size() / 2);
    std::vector<double> backwards_x, backwards_y;
    const View1<std::uint32_t> order("order", rows);
    const auto host = Kokkos::create_mirror_view(order);
    for (std::int64_t r = rows - 1; r >= 0; --r) {
      host(r) = std::uint32_t(rows - 1 - r);
      for (int i = 0; i < 3; ++i) backwards_x.push_back(x[r * 3 + i]);
      for (int o = 0; o < 2; ++o) backwards_y.push_back(y[r * 2 + o]);
    }
    Kokkos::deep_copy(order, host);
    order_ = order;
    sets_[0] = {test::to_view<T>(x, rows, 3), test::to_view<T>(y, rows, 2)};
    sets_[1] = {test::to_view<T>(backwards_x, rows, 3),
                test::to_view<T>(backwards_y, rows, 2)};
  }
  std::int64_t rows() const override { return sets_[0].rows(); }
  void start_epoch(const Exec&, std::int64_t, std::int64_t) override {}
  Batch<T> batch(const Exec&, std::int64_t position, std::int64_t,
                 const parallel::Range&) override {
    turn_ = 1 - turn_;
    Batch<T> batch;
    batch.inputs = sets_[turn_].inputs;
    batch.targets = sets_[turn_].targets;
    if (turn_ == 1) batch.order = order_;
    batch.begin = position;
    return batch;
  }

 private:
  RowSet<T> sets_[2];
  View1<const std::uint32_t> order_;
  int turn_ = 1;
};

template <class T>
struct Steps final : Observer<T> {
  std::vector<StepRecord> steps;
  parallel::StopFlags flags() override { return {}; }
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<T>&, bool, bool, const parallel::StopFlags&) override {}
};

struct Setup {
  TrainOptions options;
  Kernels kernels = Kernels::host;
  EngineKind engine = EngineKind::tile;
  std::int64_t rows = 1003, validation_rows = 0;
  std::int64_t bad_row = -1;  // its first input is not a number
};

template <class T>
struct Run {
  TrainingState<T> state;
  std::vector<StepRecord> steps;
  std::string error;
  bool recorded = false;
};

template <class T>
Run<T> train(parallel::Communicator& communicator, const Setup& setup, Way way,
             const TrainingState<T>* stored = nullptr) {
  const Exec exec;
  TrainOptions options = setup.options;
  options.late = way == Way::prompt ? 0 : 2;
  options.recorded = way == Way::recorded;
  NetworkOptions shape;
  shape.widths = {3, 12, 2};
  Network<T> network(Shape(shape), -1, 1);
  initialize(network, Initialization::pykan, 1);
  const auto engine = make_engine(exec, network, setup.kernels, setup.engine);
  auto x = test::random_values(3 * setup.rows, -2, 2, 1);
  if (setup.bad_row >= 0) x[3 * setup.bad_row] = std::numeric_limits<double>::quiet_NaN();
  TurningFeed<T> feed(x, test::random_values(2 * setup.rows, -1, 1, 2));
  const std::int64_t v = setup.validation_rows;
  const RowSet<T> validation{
      test::to_view<T>(test::random_values(3 * v, -2, 2, 3), v, 3),
      test::to_view<T>(test::random_values(2 * v, -1, 1, 4), v, 2)};
  parallel::PhaseTimer timer;
  Trainer<T> trainer(exec, network, *engine, communicator, options, feed, validation,
                     timer, stored);
  Steps<T> observer;
  Run<T> run;
  run.recorded = trainer.recorded();
  try {
    trainer.run(observer);
    run.state = trainer.state();
  } catch (const Error& error) {
    run.error = error.what();
    exec.fence();
    run.state.parameters = network.unpack(network.parameters());
  }
  run.steps = observer.steps;
  return run;
}

template <class T>
bool same(const std::vector<LayerArrays<T>>& a, const std::vector<LayerArrays<T>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t l = 0; l < a.size(); ++l)
    if (a[l].coef != b[l].coef || a[l].scale_base != b[l].scale_base) return false;
  return true;
}

template <class T>
bool same(const TrainingState<T>& a, const TrainingState<T>& b) {
  return same(a.parameters, b.parameters) && same(a.first_moment, b.first_moment) &&
         same(a.second_moment, b.second_moment) &&
         a.progress.epoch_outside == b.progress.epoch_outside;
}

// Trains in all ways; hands back the recorded run.
template <class T>
Run<T> check(parallel::Communicator& communicator, const Setup& setup) {
  const Run<T> prompt = train<T>(communicator, setup, Way::prompt);
  const Run<T> plain = train<T>(communicator, setup, Way::plain);
  Run<T> recorded = train<T>(communicator, setup, Way::recorded);
  CHECK(recorded.recorded == (setup.engine == EngineKind::tile));
  CHECK(!plain.recorded);
  CHECK(same(prompt.state, plain.state));
  CHECK(same(plain.state, recorded.state));
  CHECK(plain.error == recorded.error);
  REQUIRE(plain.steps.size() == recorded.steps.size());
  for (std::size_t s = 0; s < plain.steps.size(); ++s) {
    CHECK(plain.steps[s].loss == recorded.steps[s].loss);
    CHECK(plain.steps[s].gradient_norm == recorded.steps[s].gradient_norm);
    CHECK(plain.steps[s].learning_rate == recorded.steps[s].learning_rate);
  }
  return recorded;
}

Setup short_run() {
  Setup setup;
  setup.options.batch = 200;  // five whole batches an epoch and a short one
  setup.options.epochs = 3;
  return setup;
}

}  // namespace

TEMPLATE_TEST_CASE("recorded updates have the bits of plain ones", "", float, double) {
  const auto world = parallel::make_communicator();
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    Setup setup = short_run();
    setup.kernels = kernels;
    setup.options.schedule.warmup = 4;
    setup.options.schedule.type = ScheduleKind::cosine;
    const Run<TestType> run = check<TestType>(*world, setup);
    CHECK(run.state.progress.step == 18);
    setup.options.optimizer.type = OptimizerKind::adamw;
    setup.options.optimizer.weight_decay = 0.1;
    setup.options.optimizer.clip_norm = 0.05;
    check<TestType>(*world, setup);
    setup.options.optimizer.type = OptimizerKind::sgd;
    check<TestType>(*world, setup);
    setup.options.optimizer.momentum = 0.9;
    setup.options.optimizer.clip_norm = 0;
    check<TestType>(*world, setup);
  }
}

TEST_CASE("many leaves, and validation that needs more of them") {
  const auto world = parallel::make_communicator();
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    Setup setup = short_run();
    setup.kernels = kernels;
    setup.rows = 9000;
    setup.validation_rows = 40000;
    setup.options.batch = 4096;
    const Run<double> run = check<double>(*world, setup);
    CHECK(run.state.shards > 1);
  }
}

TEST_CASE("an engine whose kernels cannot be recorded launches them") {
  const auto world = parallel::make_communicator();
  Setup setup = short_run();
  setup.engine = EngineKind::layer;
  check<float>(*world, setup);
}

TEST_CASE("ranks without rows, and averages, are the same from a graph") {
  const auto world = parallel::make_communicator();
  Setup setup = short_run();
  setup.rows = 403;  // three rows for the last batch
  setup.options.average_every = 4;
  check<double>(*world, setup);
  setup.options.average_every = 1;
  check<double>(*world, setup);
}

TEST_CASE("a restart goes on from a graph") {
  const auto world = parallel::make_communicator();
  Setup setup = short_run();
  const Run<float> straight = train<float>(*world, setup, Way::plain);
  setup.options.epochs = -1;
  setup.options.steps = 8;
  const Run<float> first = train<float>(*world, setup, Way::recorded);
  setup.options.steps = 18;
  const Run<float> rest = train<float>(*world, setup, Way::recorded, &first.state);
  CHECK(rest.steps.size() == 10);
  CHECK(same(straight.state, rest.state));
}

TEST_CASE("an update that is not finite, and those behind it, change nothing") {
  const auto world = parallel::make_communicator();
  Setup setup = short_run();
  setup.bad_row = 450;  // of the third batch
  const Run<double> bad = check<double>(*world, setup);
  CHECK(bad.error.find("step 2") != std::string::npos);
  CHECK(bad.steps.size() == 2);
  setup.bad_row = -1;
  setup.options.steps = 2;
  const Run<double> good = train<double>(*world, setup, Way::plain);
  CHECK(same(good.state.parameters, bad.state.parameters));
}

TEST_CASE("more sizes of batches than there are graphs") {
  const Exec exec;
  const auto world = parallel::make_communicator();
  const auto communicator = world->split(world->rank(), 0);
  const auto parameters_after = [&](Way way) {
    TrainOptions options;
    options.late = way == Way::prompt ? 0 : 2;
    options.recorded = way == Way::recorded;
    NetworkOptions shape;
    shape.widths = {3, 5, 2};
    Network<double> network(Shape(shape), -1, 1);
    initialize(network, Initialization::pykan, 1);
    const auto engine = make_engine(exec, network, Kernels::team);
    parallel::PhaseTimer timer;
    Update<double> update(exec, network, *engine, *communicator, options,
                          RankParts{false, 1, 1}, timer);
    update.form();
    Batch<double> batch;
    batch.inputs = test::to_view<double>(test::random_values(300, -2, 2, 1), 100, 3);
    batch.targets = test::to_view<double>(test::random_values(200, -1, 1, 2), 100, 2);
    for (int k = 0; k < 30; ++k) {
      batch.begin = k;
      batch.size = 10 * (1 + k % 7);
      update.start(batch, batch.size, 1e-2, {}, Scope::all_ranks);
      if (k >= update.late()) CHECK(update.take().finite());
    }
    for (int k = 0; k < update.late(); ++k) update.take();
    return test::to_vector(network.parameters());
  };
  const std::vector<double> expected = parameters_after(Way::prompt);
  CHECK(expected == parameters_after(Way::plain));
  CHECK(expected == parameters_after(Way::recorded));
}
