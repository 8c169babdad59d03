// A training step takes no memory: neither Views nor anything of the heap, for any form
// of the kernels, once the first steps are done.
#include <atomic>
#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <new>

#include "kan/trainer.hpp"
#include "support/run_engine.hpp"

namespace {

std::atomic<std::int64_t> taken = 0, views = 0;

void* take(std::size_t size, std::size_t alignment) {
  ++taken;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded > 0 ? rounded : alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return take(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return take(size, std::size_t(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

using namespace kan;

namespace {

template <class T>
struct Counter final : Observer<T> {
  std::int64_t steps = 0, taken_before = 0, taken_after = 0;
  parallel::StopFlags flags() override { return {}; }
  void on_step(const StepRecord&) override {
    if (++steps == 10) taken_before = taken;
    if (steps == 30) taken_after = taken;
  }
  void on_epoch(const EpochRecord&, bool) override {}
  void on_boundary(Trainer<T>&, bool, bool, const parallel::StopFlags&) override {}
};

// Allocations of 20 steps in the middle of an epoch.
template <class T>
std::int64_t allocations(parallel::Communicator& communicator, Kernels kernels,
                         const TrainOptions& options) {
  const Exec exec;
  NetworkOptions shape;
  shape.widths = {2, 64, 1};
  Network<T> network(Shape(shape), -1, 1);
  initialize(network, Initialization::pykan, 1);
  const auto engine = make_engine(exec, network, kernels);
  const std::int64_t rows = 40 * options.batch;
  const RowSet<T> set{test::to_view<T>(test::random_values(2 * rows, -2, 2, 1), rows, 2),
                      test::to_view<T>(test::random_values(rows, -1, 1, 2), rows, 1)};
  parallel::PhaseTimer timer;
  ResidentFeed<T> feed(set, 1, true);
  Trainer<T> trainer(exec, network, *engine, communicator, options, feed, {}, timer,
                     nullptr);
  Counter<T> counter;
  trainer.run(counter);
  REQUIRE(counter.steps == 35);
  return counter.taken_after - counter.taken_before;
}

TrainOptions some_steps() {
  TrainOptions options;
  options.batch = 1024;  // several leaves
  options.steps = 35;
  options.optimizer.clip_norm = 1;
  options.digest_every = 0;
  return options;
}

}  // namespace

TEST_CASE("a step takes no memory of the heap") {
  if constexpr (!kHostExecution) SKIP("counts what kernels on the host take");
  if constexpr (KOKKOS_VERSION < 50000)
    SKIP("Kokkos 4 makes strings for every range of a kernel");
  const auto world = parallel::make_communicator();
  for (Kernels kernels : {Kernels::host, Kernels::team}) {
    TrainOptions options = some_steps();
    CHECK(allocations<float>(*world, kernels, options) == 0);
    CHECK(allocations<double>(*world, kernels, options) == 0);
    options.optimizer.type = OptimizerKind::sgd;
    options.loss = LossKind::mae;
    CHECK(allocations<float>(*world, kernels, options) == 0);
    // Other numbers of ranks gather partial sums, with lists of lengths for the message.
    options.reproducible = std::has_single_bit(unsigned(world->size()));
    CHECK(allocations<float>(*world, kernels, options) == 0);
    options.reproducible = false;
    options.late = 2;
    CHECK(allocations<float>(*world, kernels, options) == 0);
  }
}

TEST_CASE("a step takes no View") {
  const auto world = parallel::make_communicator();
  Kokkos::Tools::Experimental::set_allocate_data_callback(
      [](const Kokkos_Profiling_SpaceHandle, const char*, const void*,
         const std::uint64_t) { ++views; });
  const auto views_of = [&](std::int64_t steps) {
    TrainOptions options = some_steps();
    options.batch = 256;
    options.steps = steps;
    const Exec exec;
    NetworkOptions shape;
    shape.widths = {2, 16, 1};
    Network<float> network(Shape(shape), -1, 1);
    initialize(network, Initialization::pykan, 1);
    const auto engine = make_engine(exec, network, Kernels::automatic);
    const RowSet<float> set{
        test::to_view<float>(test::random_values(20480, -2, 2, 1), 10240, 2),
        test::to_view<float>(test::random_values(10240, -1, 1, 2), 10240, 1)};
    parallel::PhaseTimer timer;
    ResidentFeed<float> feed(set, 1, true);
    Trainer<float> trainer(exec, network, *engine, *world, options, feed, {}, timer,
                           nullptr);
    Counter<float> counter;
    views = 0;
    trainer.run(counter);
    return views.load();
  };
  CHECK(views_of(39) == views_of(5));
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
}
