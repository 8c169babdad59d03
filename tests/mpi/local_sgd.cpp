// Local SGD, and what ranks find out about each other while they train: values that are
// not finite, requests to stop, parameters that differ.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <functional>
#include <limits>

#include "kan/error.hpp"
#include "kan/trainer.hpp"
#include "parallel/digest.hpp"
#include "support/run_engine.hpp"

using namespace kan;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t kRows = 203;

template <class T>
struct Watch : Observer<T> {
  std::vector<StepRecord> steps;
  std::vector<std::int64_t> boundaries;
  std::function<parallel::StopFlags(std::int64_t)> raise;
  std::function<void(Trainer<T>&)> at_boundary;
  std::int64_t asked = 0;
  parallel::StopFlags flags() override {
    return raise ? raise(asked++) : parallel::StopFlags{};
  }
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<T>& trainer, bool, bool, const parallel::StopFlags&) override {
    boundaries.push_back(trainer.progress().step);
    if (at_boundary) at_boundary(trainer);
  }
};

template <class T>
struct Setting {
  Exec exec;
  Network<T> network{Shape(NetworkOptions{.widths = {3, 8, 2}}), -1, 1};
  std::unique_ptr<Engine<T>> engine;
  RowSet<T> rows, validation;
  parallel::PhaseTimer timer;
  explicit Setting(double odd_value = 0) {
    initialize(network, Initialization::pykan, 1);
    engine = make_engine(exec, network, Kernels::host);
    auto targets = test::random_values(2 * kRows, -1, 1, 2);
    if (odd_value != 0) targets[2 * 150] = odd_value;
    rows = {test::to_view<T>(test::random_values(3 * kRows, -2, 2, 1), kRows, 3),
            test::to_view<T>(targets, kRows, 2)};
  }
};

template <class T>
std::pair<TrainingState<T>, ExitReason> train(Setting<T>& s,
                                              parallel::Communicator& communicator,
                                              const TrainOptions& options,
                                              Watch<T>& watch,
                                              const TrainingState<T>* stored = nullptr) {
  ResidentFeed<T> feed(s.rows, options.seed, options.shuffle);
  Trainer<T> trainer(s.exec, s.network, *s.engine, communicator, options, feed,
                     s.validation, s.timer, stored);
  const ExitReason reason = trainer.run(watch).reason;
  return {trainer.state(), reason};
}

TrainOptions local_options() {
  TrainOptions options;
  options.batch = 50;  // 5 updates an epoch, the last of 3 rows
  options.steps = 14;
  options.average_every = 3;
  options.optimizer.learning_rate = 1e-2;
  return options;
}

std::vector<double> flat(const TrainingState<double>& s) {
  std::vector<double> all;
  for (const auto* set : {&s.parameters, &s.first_moment, &s.second_moment})
    for (const auto& layer : *set) {
      all.insert(all.end(), layer.coef.begin(), layer.coef.end());
      all.insert(all.end(), layer.scale_base.begin(), layer.scale_base.end());
    }
  return all;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    worst = std::max(worst, std::abs(a[k] - b[k]));
  return worst;
}

}  // namespace

TEST_CASE("local SGD is updates of each rank and weighted averages") {
  const auto world = parallel::make_communicator();
  const TrainOptions options = local_options();
  Setting<double> s;
  Watch<double> watch;
  const auto [state, reason] = train(s, *world, options, watch);

  // The same by hand, with another row order's positions: epochs end with an average.
  Setting<double> mine;
  const auto alone = world->split(world->rank(), 0);
  const RankParts parts = rank_parts(options, kRows, world->size(),
                                     mine.exec.concurrency(), mine.network.shape());
  Update<double> update(mine.exec, mine.network, *mine.engine, *alone, options, parts,
                        mine.timer);
  update.form();
  ResidentFeed<double> feed(mine.rows, options.seed, options.shuffle);
  const auto average = [&](double own, double all) {
    Optimizer<double>& o = update.optimizer();
    for (const View1<double>& view : {mine.network.parameters(), o.first(), o.second()})
      for (std::size_t k = 0; k < view.size(); ++k) {
        const auto values = world->allgather(view(k) * own);
        double sum = 0;
        for (const double value : values) sum += value;
        view(k) = sum / all;
      }
    update.form();
  };
  std::int64_t own_rows = 0, rows_seen = 0, since = 0, step = 0;
  std::vector<double> losses;
  for (int epoch = 0; step < 14; ++epoch) {
    feed.start_epoch(mine.exec, epoch, 0);
    for (std::int64_t at = 0; at < kRows && step < 14; at += 50, ++step) {
      const std::int64_t rows = std::min<std::int64_t>(50, kRows - at);
      const parallel::Range own = parts.part(rows, world->rank());
      Batch<double> batch = feed.batch(mine.exec, at, rows, own);
      batch.begin += own.begin;
      batch.size = own.size();
      batch.leaves = batch.last_leaf = parts.leaves;
      update.start(batch, own.size(), 1e-2, {}, Scope::own_rank);
      const Outcome outcome = update.take();
      double sum = outcome.loss_sum;
      world->allreduce_sum(std::span<double>(&sum, 1));
      losses.push_back(sum / double(2 * rows));
      own_rows += own.size();
      rows_seen += rows;
      if (++since == 3 || at + 50 >= kRows || step == 13) {
        average(double(own_rows), double(rows_seen));
        own_rows = rows_seen = since = 0;
      }
    }
  }
  TrainingState<double> by_hand = state;
  by_hand.parameters = mine.network.unpack(mine.network.parameters());
  by_hand.first_moment = mine.network.unpack(update.optimizer().first());
  by_hand.second_moment = mine.network.unpack(update.optimizer().second());
  CHECK(distance(flat(state), flat(by_hand)) < 1e-13);
  REQUIRE(watch.steps.size() == losses.size());
  for (std::size_t k = 0; k < losses.size(); ++k) {
    CHECK(watch.steps[k].step == std::int64_t(k));
    CHECK(std::abs(watch.steps[k].loss - losses[k]) < 1e-14);
  }
  if (world->size() > 1)
    CHECK(watch.boundaries == std::vector<std::int64_t>{3, 5, 8, 10, 13, 14});
  // All ranks end with the same bits.
  const std::vector<double> values = flat(state);
  const auto digest = parallel::digest(std::as_bytes(std::span(values)));
  for (const auto other : world->allgather(digest)) CHECK(other == digest);
}

TEST_CASE("ranks without rows count updates too, and a restart has the same bits") {
  const auto world = parallel::make_communicator();
  for (const std::int64_t batch : {50, 3}) {  // the last of 50 has 3 rows
    TrainOptions options = local_options();
    options.batch = batch;
    options.average_every = 2;
    Setting<double> s;
    Watch<double> watch;
    std::vector<TrainingState<double>> saved;
    watch.at_boundary = [&](Trainer<double>& trainer) {
      saved.push_back(trainer.state());
    };
    const auto straight = train(s, *world, options, watch).first;
    CHECK(straight.progress.optimizer_step == 14);
    for (const TrainingState<double>& state : saved) {
      CHECK(state.progress.optimizer_step == state.progress.step);
      Setting<double> again;
      Watch<double> quiet;
      const auto rest = train(again, *world, options, quiet, &state).first;
      CHECK(flat(rest) == flat(straight));
    }
  }
}

TEST_CASE("average_every = 1 and a warm-up are synchronous, bit for bit") {
  const auto world = parallel::make_communicator();
  TrainOptions options = local_options();
  options.average_every = 1;
  const auto run = [&](const TrainOptions& o) {
    Setting<double> s;
    Watch<double> watch;
    return flat(train(s, *world, o, watch).first);
  };
  const auto synchronous = run(options);
  options.average_every = 4;
  options.average_warmup = 14;
  CHECK(run(options) == synchronous);
  options.average_warmup = 0;
  options.moments = Moments::reset;
  if (world->size() > 1) CHECK(run(options) != synchronous);
}

TEST_CASE("outcomes that are read late are the same, and so is the training") {
  const auto world = parallel::make_communicator();
  for (const std::int64_t every : {1, 3}) {
    TrainOptions options = local_options();
    options.average_every = every;
    options.optimizer.clip_norm = 0.5;
    const auto run = [&](int late, Watch<double>& watch) {
      options.late = late;
      Setting<double> s;
      auto state = train(s, *world, options, watch).first;
      return state;
    };
    Watch<double> at_once, late;
    const auto a = run(0, at_once), b = run(2, late);
    CHECK(flat(a) == flat(b));
    CHECK(a.progress.epoch_outside == b.progress.epoch_outside);
    CHECK(a.progress.epoch_loss_sum == b.progress.epoch_loss_sum);
    REQUIRE(at_once.steps.size() == late.steps.size());
    for (std::size_t k = 0; k < late.steps.size(); ++k) {
      CHECK(at_once.steps[k].step == late.steps[k].step);
      CHECK(at_once.steps[k].loss == late.steps[k].loss);
      CHECK(at_once.steps[k].gradient_norm == late.steps[k].gradient_norm);
    }
    CHECK(at_once.boundaries == late.boundaries);
  }
}

TEST_CASE("a stop that one rank asks for ends all at the same step") {
  const auto world = parallel::make_communicator();
  for (const std::int64_t every : {1, 3}) {
    TrainOptions options = local_options();
    options.average_every = every;
    Setting<double> s;
    Watch<double> watch;
    watch.raise = [&](std::int64_t call) {
      parallel::StopFlags flags;
      flags.signal_stop = call == 6 && world->rank() == world->size() - 1;
      return flags;
    };
    const auto [state, reason] = train(s, *world, options, watch);
    CHECK(reason == ExitReason::signal);
    const bool local = every > 1 && world->size() > 1;
    CHECK(state.progress.step == (local ? 8 : 7));
  }
}

TEST_CASE("the rank whose loss is not finite is named, and nothing is updated") {
  const auto world = parallel::make_communicator();
  for (const double value : {std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()})
    for (const auto& [every, late] :
         {std::pair(1, 0), std::pair(1, 2), std::pair(100, 0), std::pair(100, 2)}) {
      TrainOptions options = local_options();
      options.shuffle = false;
      options.batch = kRows;  // row 150 is in the part of this rank:
      const int owner = int(150 * world->size() / kRows);
      options.average_every = every;
      options.late = late;
      Setting<double> s(value);
      const auto before = test::to_vector(s.network.parameters());
      Watch<double> watch;
      try {
        train(s, *world, options, watch);
        FAIL("not found");
      } catch (const Error& error) {
        CHECK(error.code() == Code::numerical);
        CHECK_THAT(error.what(), ContainsSubstring("the loss"));
        if (world->size() > 1)
          CHECK_THAT(error.what(),
                     ContainsSubstring("rank " + std::to_string(owner) + " of " +
                                       std::to_string(world->size())));
      }
      const auto after = test::to_vector(s.network.parameters());
      if (every == 1) CHECK(before == after);
      for (const double p : after) CHECK(std::isfinite(p));
    }
}

TEST_CASE("a rank whose parameters differ in the last bit is found and named") {
  const auto world = parallel::make_communicator();
  if (world->size() == 1) return;
  TrainOptions options = local_options();
  options.average_every = 1;
  options.digest_every = 5;
  Setting<float> s;
  Watch<float> watch;
  const int odd = world->size() - 1;
  watch.at_boundary = [&](Trainer<float>& trainer) {
    const View1<float> p = trainer.network().parameters();
    if (trainer.progress().step == 7 && world->rank() == odd)
      p(11) = std::nextafter(p(11), 10.0f);
  };
  try {
    train(s, *world, options, watch);
    FAIL("not found");
  } catch (const Error& error) {
    CHECK(error.code() == Code::communication);
    CHECK_THAT(error.what(),
               ContainsSubstring("after step 10: rank " + std::to_string(odd) + " of"));
  }
}

TEST_CASE("without sums ranks train apart, in step, and say that they are silent") {
  const auto world = parallel::make_communicator();
  const auto silent = parallel::make_communicator({.backend = "null"});
  CHECK(silent->silent());
  CHECK_FALSE(world->silent());
  if (world->size() == 1) return;
  TrainOptions options = local_options();
  options.average_every = 1;
  Setting<double> s;
  Watch<double> watch;
  const auto values = flat(train(s, *silent, options, watch).first);
  CHECK(watch.steps.size() == 14);
  // Counts travel once an epoch, gradients never: all messages together are shorter.
  CHECK(silent->statistics(parallel::Operation::sendrecv).bytes <
        std::int64_t(values.size() * sizeof(double)));
  const auto digests =
      world->allgather(parallel::digest(std::as_bytes(std::span(values))));
  CHECK(digests[0] != digests[1]);
}
