// The feed of streamed rows: every batch holds the rows that the epoch's order says, on
// the rank that works on them; training, restarts and metrics have the bits of one rank.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "io/dataset/scaling.hpp"
#include "kan/error.hpp"
#include "mpi/agree.hpp"
#include "mpi/stream_file.hpp"
#include "run/metrics.hpp"
#include "run/rows.hpp"
#include "run/stream_feed.hpp"
#include "run/stream_metrics.hpp"

using namespace kan;
using kan::run::StreamFeed;
using kan::run::StreamFeedOptions;
using kan::test::error_of;
using kan::test::StreamFile;

namespace {

io::StreamedData stream_of(const StreamFile& file, std::int64_t rows,
                           std::int64_t chunk_rows) {
  io::StreamedData stream;
  stream.chunks = io::split_chunks({0, rows}, chunk_rows, 0, 0, 1).train;
  stream.rows = rows;
  stream.data.input_scaling = {std::vector<double>(file.shape.inputs, 1.0),
                               std::vector<double>(file.shape.inputs, 0.0)};
  stream.data.target_scaling = {{1, 1}, {0, 0}};
  return stream;
}

/// Goes through an epoch from a position on; wrong values and the number of times that
/// each row was met, over all ranks.
template <class T>
struct Walk {
  bool right = true;
  std::vector<std::int64_t> met;
};

template <class T>
Walk<T> walk(parallel::Communicator& world, StreamFeed<T>& feed, const StreamFile& file,
             const StreamFeedOptions& options, const std::vector<std::int64_t>& expected,
             std::int64_t epoch, std::int64_t position) {
  const Exec exec;
  Walk<T> out;
  out.met.assign(feed.rows(), 0);
  feed.start_epoch(exec, epoch, position);
  for (std::int64_t rows; position < feed.rows(); position += rows) {
    rows = std::min(options.update_rows, feed.rows() - position);
    const parallel::Range own = options.parts.part(rows, world.rank());
    const Batch<T> batch = feed.batch(exec, position, rows, own);
    const auto copy = [](const auto& view) {
      return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
    };
    const auto x = copy(batch.inputs), y = copy(batch.targets);
    const auto order = copy(batch.order);
    for (std::int64_t i = own.begin; i < own.end; ++i) {
      const std::int64_t at = order(batch.begin + i), row = expected[position + i];
      ++out.met[row];
      for (int c = 0; c < file.shape.inputs; ++c)
        out.right = out.right && x(at, c) == T(kan::test::stream_input(row, c));
      for (int c = 0; c < 2; ++c)
        out.right = out.right && y(at, c) == T(kan::test::stream_target(row, c));
    }
  }
  out.right = on_all(world, out.right);
  world.allreduce_sum(std::span<std::int64_t>(out.met));
  return out;
}

template <class T>
void check_batches(parallel::Communicator& world, std::int64_t rows) {
  const StreamFile file(world, rows, 3);
  const io::StreamedData stream = stream_of(file, rows, 7);
  for (const bool by_leaves : {false, true}) {
    for (const std::int64_t update : {5, 64}) {
      for (const std::int64_t updates : {1, 3, 1000}) {
        if (rows / (update * updates) > 20) continue;
        const StreamFeedOptions options{9, true, update, update * updates,
                                        RankParts{by_leaves, 8, world.size()}};
        StreamFeed<T> feed(file.options, file.shape, stream, world, options);
        CHECK(feed.rows() == rows);
        io::StreamOrder order(stream.chunks, 9, true);
        for (const std::int64_t epoch : {4, 5, 0}) {
          const auto expected = kan::test::epoch_of(order, epoch, options.window_rows);
          const auto whole = walk(world, feed, file, options, expected, epoch, 0);
          CHECK(whole.right);
          CHECK(whole.met == std::vector<std::int64_t>(rows, 1));
        }
        // In the middle, as a restart begins.
        const std::int64_t middle = rows / 2 / update * update;
        const auto expected = kan::test::epoch_of(order, 1, options.window_rows);
        StreamFeed<T> other(file.options, file.shape, stream, world, options);
        CHECK(walk(world, other, file, options, expected, 1, middle).right);
      }
    }
  }
}

template <class T>
struct Silent final : Observer<T> {
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  parallel::StopFlags flags() override { return {}; }
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  void on_epoch(const EpochRecord& record, bool) override { epochs.push_back(record); }
  void on_boundary(Trainer<T>&, bool, bool, const parallel::StopFlags&) override {}
};

template <class T>
struct Outcome {
  TrainingState<T> state;
  std::vector<double> losses;
  run::SetMetrics metrics;
  std::vector<T> prediction, target;
};

constexpr int kInputs = 3;

template <class T>
Outcome<T> train(parallel::Communicator& communicator, const StreamFile& file,
                 std::int64_t steps, const TrainingState<T>* stored = nullptr,
                 Kernels kernels = Kernels::host) {
  const Exec exec;
  io::DataOptions data = file.options;
  data.scale_inputs = data.scale_targets = io::ScalingKind::minmax;
  const auto stream = io::open_stream(data, file.shape, communicator);
  NetworkOptions widths;
  widths.widths = {kInputs, 6, 2};
  Network<T> network(Shape(widths), -1, 1);
  initialize(network, Initialization::pykan, 1);
  const auto engine = make_engine(exec, network, kernels);
  TrainOptions options;
  options.batch = 512;
  options.steps = steps;
  options.reproducible = true;
  const StreamFeedOptions feeding{options.seed, true, 512, 4096,
                                  rank_parts(options, stream.rows, communicator.size(),
                                             exec.concurrency(), network.shape())};
  StreamFeed<T> feed(data, file.shape, stream, communicator, feeding);
  parallel::PhaseTimer timer;
  const RowSet<T> none{View2<T>("x", 0, kInputs), View2<T>("y", 0, 2)};
  Trainer<T> trainer(exec, network, *engine, communicator, options, feed, none, timer,
                     stored);
  Silent<T> observer;
  trainer.run(observer);
  Outcome<T> out{trainer.state(), {}, {}, {}, {}};
  for (const StepRecord& step : observer.steps) out.losses.push_back(step.loss);
  io::StreamReader reader(data, file.shape);
  run::StreamedSet set{reader, stream.chunks, stream.data.input_scaling,
                       stream.data.target_scaling};
  const run::UseRows<T> keep = [&](std::int64_t, std::span<const T> p,
                                   std::span<const T> y) {
    out.prediction.insert(out.prediction.end(), p.begin(), p.end());
    out.target.insert(out.target.end(), y.begin(), y.end());
  };
  out.metrics =
      run::measure_stream(exec, *engine, communicator, set, LossKind::mse, 3000, keep);
  return out;
}

template <class T>
bool same(const TrainingState<T>& a, const TrainingState<T>& b) {
  for (std::size_t l = 0; l < a.parameters.size(); ++l)
    if (a.parameters[l].coef != b.parameters[l].coef ||
        a.parameters[l].scale_base != b.parameters[l].scale_base ||
        a.second_moment[l].coef != b.second_moment[l].coef)
      return false;
  return a.progress.position == b.progress.position &&
         a.progress.epoch_outside == b.progress.epoch_outside &&
         a.progress.epoch_loss_sum == b.progress.epoch_loss_sum;
}

}  // namespace

TEST_CASE("a batch holds the rows at its positions, on the ranks that work on them") {
  const auto world = parallel::make_communicator();
  for (const std::int64_t rows : {1, 5, 64, 1003}) check_batches<float>(*world, rows);
  check_batches<double>(*world, 129);
}

TEST_CASE("without shuffle rows come in the order of the file") {
  const auto world = parallel::make_communicator();
  const StreamFile file(*world, 500, 3);
  const io::StreamedData stream = stream_of(file, 500, 7);
  const StreamFeedOptions options{1, false, 64, 128, RankParts{false, 1, world->size()}};
  StreamFeed<double> feed(file.options, file.shape, stream, *world, options);
  std::vector<std::int64_t> expected(500);
  for (std::int64_t r = 0; r < 500; ++r) expected[r] = r;
  for (const std::int64_t epoch : {0, 1})
    CHECK(walk(*world, feed, file, options, expected, epoch, 0).right);
}

TEST_CASE(
    "after a change of the batch within an epoch the rest of it is still met once") {
  const auto world = parallel::make_communicator();
  const StreamFile file(*world, 1003, 3);
  const io::StreamedData stream = stream_of(file, 1003, 7);
  // 3 updates of 50 rows were done; now an update has 64.
  const StreamFeedOptions options{1, true, 64, 256, RankParts{false, 1, world->size()}};
  StreamFeed<double> feed(file.options, file.shape, stream, *world, options);
  io::StreamOrder order(stream.chunks, 1, true);
  order.start(0);
  // Windows begin at 150 mod 64, so the expected order is made of those.
  std::vector<std::int64_t> expected(150 % 64, -1);
  for (std::int64_t at = 150 % 64; at < 1003; at += 256) {
    const parallel::Range window{at, std::min<std::int64_t>(at + 256, 1003)};
    std::vector<std::int64_t> rows;
    for (const io::RowBlock& block : order.blocks(window))
      for (std::int64_t r = 0; r < block.rows; ++r) rows.push_back(block.begin + r);
    for (const std::uint32_t i : order.window_order(window)) expected.push_back(rows[i]);
  }
  const auto walked = walk(*world, feed, file, options, expected, 0, 150);
  CHECK(walked.right);
  CHECK(std::count(walked.met.begin(), walked.met.end(), 1) == 1003 - 150);
}

TEST_CASE("rows are scaled as in memory") {
  const auto world = parallel::make_communicator();
  const StreamFile file(*world, 300, 3);
  io::StreamedData stream = stream_of(file, 300, 7);
  stream.data.input_scaling = {{3, 0.7, 11}, {1, 2, -5}};
  stream.data.target_scaling = {{0.3, 7}, {100, 0.1}};
  const StreamFeedOptions options{1, false, 300, 300, RankParts{false, 1, world->size()}};
  StreamFeed<float> feed(file.options, file.shape, stream, *world, options);
  const parallel::Range own = options.parts.part(300, world->rank());
  feed.start_epoch(Exec(), 0, 0);
  const Batch<float> batch = feed.batch(Exec(), 0, 300, own);
  io::DataOptions kept = file.options;
  kept.replicate_below = 1 << 30;
  const io::Data data =
      io::load(kept, file.shape, stream.data.input_scaling, stream.data.target_scaling);
  const auto x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), batch.inputs);
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), batch.targets);
  const auto order =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), batch.order);
  bool right = true;
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    const std::int64_t at = order(batch.begin + i);
    for (int c = 0; c < 3; ++c)
      right = right && x(at, c) == float(data.train.x[i * 3 + c]);
    for (int c = 0; c < 2; ++c)
      right = right && y(at, c) == float(data.train.y[i * 2 + c]);
  }
  CHECK(right);
}

TEST_CASE("a file that changes while its rows are read ends the run on every rank") {
  const auto world = parallel::make_communicator();
  const StreamFile file(*world, 1000, 3);
  const io::StreamedData stream = stream_of(file, 1000, 7);
  const StreamFeedOptions options{1, true, 64, 128, RankParts{false, 1, world->size()}};
  StreamFeed<float> feed(file.options, file.shape, stream, *world, options);
  feed.start_epoch(Exec(), 0, 0);
  feed.batch(Exec(), 0, 64, options.parts.part(64, world->rank()));
  world->barrier();
  if (world->rank() == 0)
    std::filesystem::resize_file(file.options.file,
                                 std::filesystem::file_size(file.options.file) / 2);
  world->barrier();
  const auto error = error_of([&] {
    for (std::int64_t at = 64; at + 64 <= 1000; at += 64)
      feed.batch(Exec(), at, 64, options.parts.part(64, world->rank()));
  });
  CHECK(error.code == Code::data);
  CHECK(error.has(file.options.file + ": the file was changed"));
}

TEST_CASE("windows take the memory that they may, whatever the ranks") {
  // 10 columns of float: 2 x 40 bytes a row and 16 of orders.
  CHECK(run::window_row_bytes(10, 4) == 96);
  CHECK(run::window_rows(96 * 1000, 10, 4, 64, 1 << 20) == 960);
  CHECK(run::window_rows(96 * 64, 10, 4, 64, 1 << 20) == 64);
  CHECK(run::window_rows(std::int64_t{1} << 50, 10, 4, 64, 1000) == 1024);
  const auto error = error_of([] { run::window_rows(96 * 63, 10, 4, 64, 1 << 20); });
  CHECK(error.code == Code::device);
  CHECK(error.has("data/replicate_below: 5.9 KiB are room for 63 rows"));
  CHECK(error.has("an update takes 64"));
}

TEST_CASE("reproducible training of streamed rows has the bits of one rank") {
  const auto world = parallel::make_communicator();
  const auto alone = world->split(world->rank(), 0);
  const StreamFile file(*world, 50001, kInputs);  // two chunks
  const auto one = train<float>(*alone, file, 130);
  const auto all = train<float>(*world, file, 130);
  CHECK(same(one.state, all.state));
  CHECK(one.losses == all.losses);
  CHECK(one.metrics.loss == all.metrics.loss);
  CHECK(one.metrics.rmse == all.metrics.rmse);
  CHECK(one.metrics.outside == all.metrics.outside);
  CHECK(one.prediction == all.prediction);
  CHECK(one.losses.back() < 0.5 * one.losses.front());
  // Cut in the middle of the second epoch and gone on with.
  const auto first = train<float>(*world, file, 117);
  const auto rest = train<float>(*world, file, 130, &first.state);
  CHECK(first.state.progress.position > 0);
  CHECK(same(one.state, rest.state));

  // The team form, and metrics as those of rows in memory.
  const auto team = train<double>(*world, file, 20, nullptr, Kernels::team);
  CHECK(same(train<double>(*alone, file, 20, nullptr, Kernels::team).state, team.state));
  double sum = 0;
  bool targets = true;
  for (std::size_t k = 0; k < team.target.size(); ++k) {
    sum += std::pow(team.prediction[k] - team.target[k], 2);
    targets = targets && team.target[k] == file.y[k];
  }
  CHECK(team.target.size() == 2 * 50001);
  CHECK(targets);
  CHECK(std::abs(std::sqrt(sum / double(team.target.size())) / team.metrics.rmse - 1) <
        1e-12);
}
