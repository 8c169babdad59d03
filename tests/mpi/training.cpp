// One model over several ranks: the plain mode within its tolerance of one rank, the
// reproducible mode with the bits of one rank, uneven shares and ranks without rows
// included; evaluation and checkpoints the same on every rank.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "kan/error.hpp"
#include "kan/trainer.hpp"
#include "support/run_engine.hpp"

using namespace kan;

namespace {

template <class T>
struct Silent final : Observer<T> {
  std::vector<EpochRecord> epochs;
  parallel::StopFlags flags() override { return {}; }
  void on_step(const StepRecord&) override {}
  void on_epoch(const EpochRecord& record, bool) override { epochs.push_back(record); }
  void on_boundary(Trainer<T>&, bool, bool, const parallel::StopFlags&) override {}
};

template <class T>
struct Outcome {
  TrainingState<T> state;
  std::vector<EpochRecord> epochs;
};

template <class T>
Outcome<T> train(parallel::Communicator& communicator, const TrainOptions& options,
                 Kernels kernels, std::int64_t rows,
                 const TrainingState<T>* stored = nullptr,
                 EngineKind kind = EngineKind::automatic) {
  const Exec exec;
  NetworkOptions shape;
  shape.widths = {3, 12, 2};
  Network<T> network(Shape(shape), -1, 1);
  initialize(network, Initialization::pykan, 1);
  const auto engine = make_engine(exec, network, kernels, kind);
  const auto make = [&](std::int64_t count, unsigned seed) {
    return RowSet<T>{
        test::to_view<T>(test::random_values(3 * count, -2, 2, seed), count, 3),
        test::to_view<T>(test::random_values(2 * count, -1, 1, seed + 1), count, 2)};
  };
  const RowSet<T> train_rows = make(rows, 1), validation = make(77, 3);
  parallel::PhaseTimer timer;
  ResidentFeed<T> feed(train_rows, options.seed, options.shuffle);
  Trainer<T> trainer(exec, network, *engine, communicator, options, feed, validation,
                     timer, stored);
  Silent<T> observer;
  trainer.run(observer);
  return {trainer.state(), observer.epochs};
}

template <class T>
double distance(const TrainingState<T>& a, const TrainingState<T>& b) {
  double worst = 0;
  for (std::size_t l = 0; l < a.parameters.size(); ++l)
    for (std::size_t k = 0; k < a.parameters[l].coef.size(); ++k)
      worst = std::max(worst, std::abs(double(a.parameters[l].coef[k]) -
                                       double(b.parameters[l].coef[k])));
  return worst;
}

template <class T>
bool same(const TrainingState<T>& a, const TrainingState<T>& b) {
  for (std::size_t l = 0; l < a.parameters.size(); ++l)
    if (a.parameters[l].coef != b.parameters[l].coef ||
        a.parameters[l].scale_base != b.parameters[l].scale_base ||
        a.second_moment[l].coef != b.second_moment[l].coef)
      return false;
  return a.progress.epoch_outside == b.progress.epoch_outside &&
         a.progress.epoch_loss_sum == b.progress.epoch_loss_sum;
}

template <class T>
void check_reproducible(Kernels kernels, EngineKind kind = EngineKind::automatic) {
  const auto world = parallel::make_communicator();
  const auto alone = world->split(world->rank(), 0);
  TrainOptions options;
  options.batch = 512;
  options.steps = 25;
  options.reproducible = true;
  const auto one = train<T>(*alone, options, kernels, 1003, nullptr, kind);
  const auto all = train<T>(*world, options, kernels, 1003, nullptr, kind);
  CHECK(same(one.state, all.state));
  REQUIRE(one.epochs.size() == all.epochs.size());
  for (std::size_t e = 0; e < one.epochs.size(); ++e) {
    CHECK(one.epochs[e].train_loss == all.epochs[e].train_loss);
    CHECK(one.epochs[e].validation_loss == all.epochs[e].validation_loss);
    CHECK(one.epochs[e].outside == all.epochs[e].outside);
  }
}

}  // namespace

TEST_CASE("plain mode: ranks change the last digits only") {
  const auto world = parallel::make_communicator();
  const auto alone = world->split(world->rank(), 0);
  for (std::int64_t rows : {5, 1003}) {  // fewer rows than ranks too
    TrainOptions options;
    options.batch = 200;
    options.epochs = 4;
    const auto one = train<double>(*alone, options, Kernels::host, rows);
    const auto all = train<double>(*world, options, Kernels::host, rows);
    CHECK(distance(one.state, all.state) < 1e-10);
    for (std::size_t e = 0; e < one.epochs.size(); ++e) {
      CHECK(std::abs(one.epochs[e].train_loss - all.epochs[e].train_loss) < 1e-12);
      CHECK(std::abs(one.epochs[e].validation_loss - all.epochs[e].validation_loss) <
            1e-10);
      CHECK(one.epochs[e].outside == all.epochs[e].outside);
    }
    // What rank 0 writes is what every rank has.
    const double mine = all.state.parameters[1].coef[7];
    CHECK(world->allgather(mine)[0] == mine);
  }
}

TEST_CASE("reproducible mode: the bits of one rank, float") {
  check_reproducible<float>(Kernels::host);
  check_reproducible<float>(Kernels::team);
  check_reproducible<float>(Kernels::host, EngineKind::layer);
}

TEST_CASE("reproducible mode: the bits of one rank, double") {
  check_reproducible<double>(Kernels::host);
  check_reproducible<double>(Kernels::team);
  check_reproducible<double>(Kernels::host, EngineKind::layer);
}

TEST_CASE("a state of one rank goes on over several ranks") {
  const auto world = parallel::make_communicator();
  const auto alone = world->split(world->rank(), 0);
  TrainOptions options;
  options.batch = 512;
  options.reproducible = true;
  options.steps = 7;
  const auto first = train<float>(*world, options, Kernels::host, 1003);
  options.steps = 15;
  const auto straight = train<float>(*alone, options, Kernels::host, 1003);
  const auto rest = train<float>(*world, options, Kernels::host, 1003, &first.state);
  CHECK(same(straight.state, rest.state));
}
