// What a sum of gradients over ranks costs, measured in one run: all ways of summing take
// turns, round after round, so that a noisy moment of the machine hits all of them alike.
//
//   mpirun -n P kan_bench_reduce [sums|steps|quick]
//
// First table: microseconds of one sum, the median over rounds of what the slowest rank
// took; ratio: median over rounds of its quotient with the bare MPI_Allreduce of as many
// bytes in the same round (for sums without a model: bytes without a lane). bus: GB/s as
// bytes 2(P-1)/P / time. Ways:
//   bare       MPI_Allreduce                  auto, library, tensors   GradientReducer
//   tree       TreeReducer                    doubling, halving        PairwiseSum
// Second table: a step of the reference model trained in plain and in reproducible mode.
// sums, steps: one of the tables. quick: few rounds, to see that it runs; its figures
// mean nothing. Results of sums are checked before they are timed. Exit status 0, or that
// of the error.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kan/error.hpp"
#include "kan/trainer.hpp"
#include "parallel/exchange.hpp"
#include "parallel/launch.hpp"
#include "parallel/mpi_check.hpp"
#include "support/run_engine.hpp"

namespace {

using namespace kan;
using parallel::Algorithm;
using parallel::Communicator;

struct Effort {
  int rounds = 61, calls = 50;  ///< of the first table; a round is so many calls
  int pairs = 9, updates = 40;  ///< of the second, at 8192 rows an update
};

/// One way of summing; run() is collective.
struct Way {
  std::string name, algorithm;
  std::function<void()> run;
  /// First and last element of the gradient, set and read back.
  std::function<void(float)> fill;
  std::function<bool(float)> holds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Way on_view(std::string name, std::string algorithm, const View1<float>& values,
            std::function<void()> run) {
  Way way{std::move(name), std::move(algorithm), std::move(run), {}, {}};
  way.fill = [values](float value) { Kokkos::deep_copy(values, value); };
  way.holds = [values](float value) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), values);
    return std::all_of(host.data(), host.data() + host.size(),
                       [=](float v) { return v == value; });
  };
  return way;
}

Way on_host(std::string name, std::string algorithm,
            const std::shared_ptr<std::vector<float>>& values,
            std::function<void()> run) {
  Way way{std::move(name), std::move(algorithm), std::move(run), {}, {}};
  way.fill = [values](float value) { std::fill(values->begin(), values->end(), value); };
  way.holds = [values](float value) {
    return std::all_of(values->begin(), values->end(),
                       [=](float v) { return v == value; });
  };
  return way;
}

Way bare(std::int64_t n) {
  const auto values = std::make_shared<std::vector<float>>(n);
  return on_host("bare", "MPI_Allreduce", values, [values] {
    KAN_CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, values->data(),
                                static_cast<int>(values->size()), MPI_FLOAT, MPI_SUM,
                                MPI_COMM_WORLD));
  });
}

Way pairwise(Communicator& all, std::int64_t n, parallel::PairwiseForm form) {
  const auto values = std::make_shared<std::vector<float>>(n);
  const auto sum = std::make_shared<parallel::PairwiseSum<float>>(all, form);
  const bool halves = form == parallel::PairwiseForm::halving;
  return on_host(halves ? "halving" : "doubling", "tree", values,
                 [=] { sum->sum(std::span<float>(*values)); });
}

Way reducer(Communicator& all, const std::string& name, std::int64_t n,
            Algorithm algorithm, const std::vector<std::int64_t>& messages = {}) {
  const auto reducer =
      std::make_shared<parallel::GradientReducer<float>>(all, n, algorithm, messages);
  const bool tree = reducer->algorithm() == Algorithm::tree;
  return on_view(name, tree ? "tree" : "library", reducer->gradient(),
                 [reducer] { reducer->reduce(Exec(), {}); });
}

Way reproducible(Communicator& all, std::int64_t n) {
  const auto tree = std::make_shared<parallel::TreeReducer<float>>(all, n, 64);
  const std::vector<double> losses(tree->subtrees().size(), 1.0);
  Way way = on_view("tree", "reproducible", tree->gradient(),
                    [=] { tree->reduce(Exec(), losses, {}); });
  // The subtrees of a rank together bring the value; all others bring nothing.
  way.fill = [tree](float value) {
    Kokkos::deep_copy(tree->partials(), 0.0f);
    Kokkos::deep_copy(tree->gradient(), value);
  };
  return way;
}

void check_sums(Communicator& all, const std::vector<Way>& ways) {
  const int P = all.size();
  for (const Way& way : ways) {
    way.fill(static_cast<float>(all.rank() + 1));
    way.run();
    if (!way.holds(static_cast<float>(P * (P + 1) / 2)))
      throw Error(Code::numerical, way.name + ": the sum over ranks is wrong");
    way.fill(0);
  }
}

void measure(Communicator& all, const Effort& effort, const std::string& title,
             std::int64_t bytes, const std::vector<Way>& ways) {
  check_sums(all, ways);
  std::vector<double> seconds;  // of each round, then of each way in it
  for (int round = 0; round < effort.rounds; ++round) {
    for (const Way& way : ways) {
      all.barrier();
      const double start = MPI_Wtime();
      for (int call = 0; call < effort.calls; ++call) way.run();
      seconds.push_back((MPI_Wtime() - start) / effort.calls);
    }
  }
  all.allreduce_max(std::span<double>(seconds));
  if (all.rank() != 0) return;
  const std::size_t count = ways.size();
  for (std::size_t w = 0; w < count; ++w) {
    std::vector<double> times, ratios;
    for (std::size_t i = 0; i < seconds.size(); i += count) {
      times.push_back(seconds[i + w]);
      ratios.push_back(seconds[i + w] / seconds[i]);
    }
    const double time = median(times);
    const double bus = static_cast<double>(bytes) * 2 * (all.size() - 1) / all.size();
    std::printf("%-22s %9lld  %-9s %-14s %10.2f %8.3f %8.2f\n",
                w == 0 ? title.c_str() : "", static_cast<long long>(bytes),
                ways[w].name.c_str(), ways[w].algorithm.c_str(), 1e6 * time,
                1e-9 * bus / time, median(ratios));
  }
  std::fflush(stdout);
}

void sums(Communicator& all, const Effort& effort) {
  if (all.rank() == 0)
    std::printf(
        "sums of float over %d ranks, %d rounds of %d calls\n%-22s %9s  %-9s "
        "%-14s %10s %8s %8s\n",
        all.size(), effort.rounds, effort.calls, "gradient", "bytes", "way", "algorithm",
        "us", "bus GB/s", "ratio");
  for (const int width : {64, 512}) {
    for (const int grid : {5, 10}) {
      NetworkOptions options;
      options.widths = {2, width, 1};
      options.grid = {grid};
      const Shape shape(options);
      const std::int64_t n = shape.parameters(), all_slots = n + parallel::kLaneSlots;
      measure(all, effort,
              "[2," + std::to_string(width) + ",1] G=" + std::to_string(grid),
              4 * all_slots,
              {bare(all_slots), reducer(all, "auto", n, Algorithm::automatic),
               reducer(all, "library", n, Algorithm::library),
               reducer(all, "tensors", n, Algorithm::automatic, shape.tensors()),
               reproducible(all, n)});
    }
  }
  for (std::int64_t n = 4; n <= (1 << 20); n *= 4) {
    Effort less = effort;
    if (n >= (1 << 16)) less.calls = std::max(1, effort.calls / 10);
    measure(all, less, "", 4 * n,
            {bare(n), reducer(all, "auto", n, Algorithm::automatic),
             reducer(all, "library", n, Algorithm::library), reproducible(all, n),
             pairwise(all, n, parallel::PairwiseForm::doubling),
             pairwise(all, n, parallel::PairwiseForm::halving)});
  }
}

struct Silent final : Observer<float> {
  parallel::StopFlags flags() override { return {}; }
  void on_step(const StepRecord&) override {}
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<float>&, bool, bool, const parallel::StopFlags&) override {}
};

/// Seconds of one update of inputs/reference.deck's model.
double step_seconds(Communicator& all, std::int64_t batch, std::int64_t updates,
                    bool same_bits) {
  const Exec exec;
  NetworkOptions shape;
  shape.widths = {2, 64, 1};
  shape.grid = {10};
  shape.spline_scale = SplineScale::trained;
  Network<float> network(Shape(shape), -1, 1);
  initialize(network, Initialization::pykan, 1);
  const auto engine = make_engine(exec, network, Kernels::automatic);
  const std::int64_t count = std::int64_t{1} << 16;
  const RowSet<float> rows{
      test::to_view<float>(test::random_values(2 * count, -2, 2, 1), count, 2),
      test::to_view<float>(test::random_values(count, 0, 8, 2), count, 1)};
  TrainOptions options;
  options.batch = batch;
  options.steps = updates;
  options.reproducible = same_bits;
  options.shuffle = false;
  parallel::PhaseTimer timer;
  ResidentFeed<float> feed(rows, options.seed, options.shuffle);
  Trainer<float> trainer(exec, network, *engine, all, options, feed, {}, timer, nullptr);
  Silent observer;
  const TrainResult result = trainer.run(observer);
  double seconds = result.seconds / static_cast<double>(result.steps);
  all.allreduce_max(std::span(&seconds, 1));
  return seconds;
}

void steps(Communicator& all, const Effort& effort) {
  if (all.rank() == 0)
    std::printf(
        "\nstep of [2,64,1] G=10, spline scales trained, %d ranks, %d rounds\n"
        "%10s %12s %16s %8s\n",
        all.size(), effort.pairs, "batch", "plain us", "reproducible us", "ratio");
  for (const std::int64_t batch : {512, 8192}) {
    const std::int64_t updates = std::max<std::int64_t>(1, effort.updates * 8192 / batch);
    std::vector<double> plain, same_bits, ratios;
    for (int round = -1; round < effort.pairs; ++round) {
      const double first = step_seconds(all, batch, updates, round % 2 != 0);
      const double second = step_seconds(all, batch, updates, round % 2 == 0);
      if (round < 0) continue;  // caches and clocks warm up
      const bool swapped = round % 2 != 0;
      plain.push_back(swapped ? second : first);
      same_bits.push_back(swapped ? first : second);
      ratios.push_back(same_bits.back() / plain.back());
    }
    if (all.rank() == 0)
      std::printf("%10lld %12.1f %16.1f %8.3f\n", static_cast<long long>(batch),
                  1e6 * median(plain), 1e6 * median(same_bits), median(ratios));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    parallel::Launch launch;
    launch.start_kokkos();
    Effort effort;
    const std::string part = argc == 2 ? argv[1] : "";
    if (part == "quick") {
      effort = {.rounds = 3, .calls = 2, .pairs = 1, .updates = 1};
    } else if (argc > 2 || (argc == 2 && part != "sums" && part != "steps")) {
      throw Error(Code::usage, "usage: mpirun -n P kan_bench_reduce [sums|steps|quick]");
    }
    const auto all = parallel::make_communicator();
    if (part != "steps" && all->size() > 1) sums(*all, effort);
    if (part != "sums") steps(*all, effort);
    return 0;
  } catch (const Error& error) {
    return parallel::fail("kan_bench_reduce", error);
  }
}
