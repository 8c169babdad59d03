// Rank groups in one job: two models trained side by side have the bits that each has
// when its group works alone; a stop or a request to save crosses groups; ranks without
// work sleep. Jobs with an odd number of ranks have one that idles all the time.
#include "parallel/groups.hpp"

#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <thread>

#include "kan/trainer.hpp"
#include "mpi/agree.hpp"
#include "parallel/launch.hpp"
#include "parallel/notice_board.hpp"
#include "support/run_engine.hpp"

using namespace kan;
using namespace kan::parallel;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// As a driver does it: the first rank of a group reads the board, and shares what its
/// group decides. at_step: asked before each update, what this rank itself wants.
class Watcher final : public Observer<float> {
 public:
  Watcher(NoticeBoard* board, std::function<StopFlags(std::int64_t)> at_step)
      : board_(board), at_step_(std::move(at_step)) {}
  StopFlags flags() override {
    StopFlags flags = at_step_(steps);
    if (board_ == nullptr) return flags;
    const StopFlags read = board_->read();
    flags.signal_stop = flags.signal_stop || read.signal_stop;
    flags.signal_checkpoint = flags.signal_checkpoint || read.signal_checkpoint;
    flags.walltime = flags.walltime || read.walltime;
    return flags;
  }
  void on_step(const StepRecord&) override { ++steps; }
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<float>&, bool, bool, const StopFlags& decided) override {
    if (decided.signal_checkpoint) ++saves;
    if (board_ != nullptr) board_->share(decided);
  }
  std::int64_t steps = 0;
  int saves = 0;

 private:
  NoticeBoard* board_;
  std::function<StopFlags(std::int64_t)> at_step_;
};

StopFlags nothing(std::int64_t) { return {}; }
StopFlags quiet() { return {}; }

struct Trained {
  ExitReason reason = ExitReason::done;
  std::int64_t steps = 0;
  int saves = 0;
  std::vector<float> parameters;
};

/// Trains one of two models for so many steps on the ranks of a communicator.
Trained train(Communicator& group, int model, std::int64_t steps, NoticeBoard& board,
              const std::function<StopFlags(std::int64_t)>& at_step = nothing) {
  const Exec exec;
  NetworkOptions shape;
  shape.widths = {2, 5 + model, 1};
  Network<float> network(Shape(shape), -1, 1);
  initialize(network, Initialization::pykan, 1 + unsigned(model));
  const auto engine = make_engine(exec, network, Kernels::host);
  const std::int64_t rows = 700;
  const RowSet<float> set{
      test::to_view<float>(test::random_values(2 * rows, -1, 1, 5), rows, 2),
      test::to_view<float>(test::random_values(rows, -1, 1, 6), rows, 1)};
  const RowSet<float> none;
  TrainOptions options;
  options.batch = 256;
  options.shard_rows = 32;
  options.reproducible = true;
  options.steps = steps;
  PhaseTimer timer;
  ResidentFeed<float> feed(set, options.seed, options.shuffle);
  Trainer<float> trainer(exec, network, *engine, group, options, feed, none, timer,
                         nullptr);
  Watcher watcher(group.rank() == 0 ? &board : nullptr, at_step);
  Trained outcome;
  outcome.reason = trainer.run(watcher).reason;
  outcome.steps = watcher.steps;
  outcome.saves = watcher.saves;
  const auto host =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), network.parameters());
  outcome.parameters.assign(host.data(), host.data() + host.size());
  return outcome;
}

GroupPlan two_groups(const Communicator& world) {
  const int half = world.size() / 2;
  return plan_groups(emulated_nodes(world.size(), world.size()), std::vector{half, half},
                     Placement::packed);
}

/// The plan in which one of the groups is at work and all other ranks idle.
GroupPlan alone(const GroupPlan& plan, int group, int size) {
  GroupPlan one;
  one.groups = {plan.groups[std::size_t(group)]};
  for (int rank = 0; rank < size; ++rank)
    if (plan.group_of(rank) != group) one.idle.push_back(rank);
  return one;
}

}  // namespace

TEST_CASE("the node of each rank") {
  const Launch launch;  // all on this machine
  CHECK(launch.nodes() == 1);
  CHECK(launch.node_of() == std::vector<int>(std::size_t(launch.ranks()), 0));
}

TEST_CASE("two models side by side have the bits of each alone") {
  const auto world = make_communicator();
  const GroupPlan plan = two_groups(*world);
  const int mine = plan.group_of(world->rank());
  std::optional<Trained> together, apart;
  {
    NoticeBoard board(plan.leaders());
    const auto group = split(*world, plan);
    REQUIRE((group == nullptr) == (mine == GroupPlan::kIdle));
    if (group) {
      CHECK(group->size() == world->size() / 2);
      CHECK(group->rank() == world->rank() - plan.groups[std::size_t(mine)].ranks[0]);
      together = train(*group, mine, 60, board);
    }
    board.wait_for_all(quiet);
  }
  for (int g = 0; g < 2; ++g) {
    const GroupPlan one = alone(plan, g, world->size());
    NoticeBoard board(one.leaders());
    const auto group = split(*world, one);
    if (group) apart = train(*group, g, 60, board);
    board.wait_for_all(quiet);
  }
  REQUIRE(together.has_value() == apart.has_value());
  CHECK(on_all(*world, !together || (together->parameters == apart->parameters &&
                                     together->steps == 60)));
}

TEST_CASE("a stop in one group stops both, each at one step") {
  const auto world = make_communicator();
  const GroupPlan plan = two_groups(*world);
  const int mine = plan.group_of(world->rank());
  NoticeBoard board(plan.leaders());
  const auto group = split(*world, plan);
  Trained outcome;
  double raised = 0, stopped = 0;  // steady clock, one for all processes of a machine
  const auto now = [] { return seconds_since(Clock::time_point()); };
  if (group) {
    // The last rank of the second group gets a signal in its step 20.
    const bool raises = mine == 1 && group->rank() == group->size() - 1;
    outcome = train(*group, mine, 1'000'000'000, board, [&](std::int64_t step) {
      StopFlags flags;
      flags.signal_stop = raises && step >= 20;
      if (raises && step == 20) raised = now();
      return flags;
    });
    stopped = now();
    CHECK(outcome.reason == ExitReason::signal);
    for (const std::int64_t steps : group->allgather(outcome.steps))
      CHECK(steps == outcome.steps);
    if (mine == 1) CHECK(outcome.steps == 21);
  }
  board.wait_for_all(quiet);
  world->allreduce_max(std::span(&raised, 1));
  world->allreduce_max(std::span(&stopped, 1));
  CHECK(stopped - raised < 5);
  if (world->rank() == 0) std::printf("both stopped in %.3f s\n", stopped - raised);
}

TEST_CASE("a rank without work passes on its signals") {
  const auto world = make_communicator();
  const GroupPlan plan = alone(two_groups(*world), 1, world->size());
  NoticeBoard board(plan.leaders());
  const auto group = split(*world, plan);
  Trained outcome;
  const auto start = Clock::now();
  if (group) {
    outcome = train(*group, 0, 1'000'000'000, board);
    CHECK(outcome.reason == ExitReason::signal);
  }
  int asked = 0;
  board.wait_for_all([&] {
    StopFlags flags;
    if (world->rank() != 0 || group) return flags;
    flags.signal_checkpoint = asked == 0 && seconds_since(start) > 0.3;
    if (flags.signal_checkpoint) ++asked;
    flags.signal_stop = seconds_since(start) > 1;
    return flags;
  });
  CHECK(seconds_since(start) < 6);
  if (group) CHECK(outcome.saves == 1);
}

TEST_CASE("saving is asked for once, and stops do not come back") {
  const auto world = make_communicator();
  std::vector<int> everyone;
  for (int rank = 0; rank < world->size(); ++rank) everyone.push_back(rank);
  NoticeBoard board(everyone);
  for (int round = 0; round < 3; ++round) {
    StopFlags sent;
    sent.signal_checkpoint = sent.walltime = true;
    sent.output_now = true;
    if (world->rank() == 0) board.share(sent);
    int saves = 0, stops = 0;
    for (int look = 0; look < 12; ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const StopFlags read = board.read();
      CHECK(!(read.output_now || read.signal_stop || read.stop_now));
      if (read.signal_checkpoint) ++saves;
      if (read.walltime) ++stops;
      board.share(read);  // what came from the board does not go back to it
    }
    if (world->rank() == 0) {
      CHECK(saves + stops == 0);
    } else {
      CHECK(saves == 1);
      CHECK(stops > 5);
    }
    board.wait_for_all(quiet);
    CHECK(board.read() == StopFlags{});
  }
}

TEST_CASE("ranks without work sleep") {
  const auto world = make_communicator();
  GroupPlan plan;
  plan.groups = {{{world->size() - 1}, 1}};
  NoticeBoard board(plan.leaders());
  const bool works = plan.group_of(world->rank()) == 0;
  world->barrier();
  const auto start = Clock::now();
  const double before = cpu_seconds();
  if (works) std::this_thread::sleep_for(std::chrono::seconds(2));
  board.wait_for_all(quiet);
  const double wall = seconds_since(start);
  const double share = (cpu_seconds() - before) / wall;
  CHECK(wall >= 2);
  CHECK(wall < 5);
  if (!works) CHECK(share < 0.05);
  double most = works ? 0 : share;
  world->allreduce_max(std::span(&most, 1));
  if (world->rank() == 0)
    std::printf("most CPU of a sleeping rank: %.2f %%\n", 100 * most);
}
