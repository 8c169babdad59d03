// Streamed rows: the order of an epoch, the split by chunks, and the pass over the file,
// whose scaling, digest and errors do not depend on ranks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "io/dataset/stream.hpp"
#include "kan/error.hpp"
#include "mpi/agree.hpp"
#include "mpi/stream_file.hpp"

using namespace kan;
using namespace kan::io;
using kan::test::epoch_of;
using kan::test::error_of;

namespace {

std::vector<std::int64_t> rows_of(const std::vector<RowBlock>& blocks) {
  std::vector<std::int64_t> out;
  for (const RowBlock& block : blocks)
    for (std::int64_t r = 0; r < block.rows; ++r) out.push_back(block.begin + r);
  return out;
}

std::vector<std::int64_t> counted(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> out;
  for (std::int64_t r = begin; r < end; ++r) out.push_back(r);
  return out;
}

}  // namespace

TEST_CASE("an epoch is a permutation of the rows, another one every epoch, by windows") {
  const auto world = parallel::make_communicator();
  for (const std::int64_t rows : {1, 5, 64, 1003}) {
    for (const std::int64_t window : {8, 100, 5000}) {
      const auto split = split_chunks({10, 10 + rows}, 7, 0, 0, 1);
      CHECK(rows_of(split.train) == counted(10, 10 + rows));
      StreamOrder order(split.train, 3, true);
      CHECK(order.rows() == rows);
      std::set<std::vector<std::int64_t>> seen;
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        auto sequence = epoch_of(order, epoch, window);
        CHECK(same_on_all(*world, std::span<const std::int64_t>(sequence)));
        seen.insert(sequence);
        // Windows are parts of the sequence of chunks: most of their rows have
        // neighbours.
        std::sort(sequence.begin(), sequence.end());
        CHECK(sequence == counted(10, 10 + rows));
      }
      CHECK((seen.size() == 3 || rows < 64));
      // An epoch is the same whatever was asked for before.
      StreamOrder other(split.train, 3, true);
      CHECK(epoch_of(other, 2, window) == epoch_of(order, 2, window));
      StreamOrder seeded(split.train, 4, true), plain(split.train, 3, false);
      CHECK((epoch_of(seeded, 2, window) != epoch_of(order, 2, window) || rows < 64));
      CHECK(epoch_of(plain, 2, window) == counted(10, 10 + rows));
    }
  }
}

TEST_CASE("a window holds the rows of its chunks, shuffled over all of it") {
  StreamOrder order(split_chunks({0, 4000}, 100, 0, 0, 1).train, 1, true);
  const auto sequence = epoch_of(order, 0, 1000);
  for (std::int64_t w = 0; w < 4; ++w) {
    std::set<std::int64_t> chunks;
    for (std::int64_t i = 0; i < 1000; ++i) chunks.insert(sequence[1000 * w + i] / 100);
    CHECK(chunks.size() == 10);
    std::set<std::int64_t> first;  // of the first batch of 100 rows
    for (std::int64_t i = 0; i < 100; ++i) first.insert(sequence[1000 * w + i] / 100);
    CHECK(first.size() >= 8);
  }
}

TEST_CASE(
    "chunks fit reading: about 1 MiB, whole chunks of the file where these are small") {
  CHECK(stream_chunk_rows(4, 0) == 32768);
  CHECK(stream_chunk_rows(1 << 20, 0) == 1);
  CHECK(stream_chunk_rows(4, 1000) == 33000);
  CHECK(stream_chunk_rows(4, 100000) == 100000);
  CHECK(stream_chunk_rows(4, 100000000) == 32768);
}

TEST_CASE("validation and test are whole chunks but for one each, drawn by the seed") {
  const auto split = split_chunks({5, 1005}, 30, 0.25, 0.1, 1);
  std::vector<std::int64_t> all = rows_of(split.train);
  const auto validation = rows_of(split.validation), test = rows_of(split.test);
  CHECK(validation.size() == 250);
  CHECK(test.size() == 100);
  all.insert(all.end(), validation.begin(), validation.end());
  all.insert(all.end(), test.begin(), test.end());
  std::sort(all.begin(), all.end());
  CHECK(all == counted(5, 1005));
  const auto cut = [](const std::vector<RowBlock>& blocks) {
    return std::count_if(blocks.begin(), blocks.end(),
                         [](const RowBlock& b) { return b.rows != 30; });
  };
  CHECK(cut(split.test) <= 2);
  CHECK(cut(split.validation) <= 3);
  CHECK(cut(split.train) <= 3);
  CHECK(split_chunks({5, 1005}, 30, 0.25, 0.1, 1).validation == split.validation);
  CHECK(split_chunks({5, 1005}, 30, 0.25, 0.1, 2).validation != split.validation);
  const auto none = error_of([] { split_chunks({0, 10}, 4, 0.5, 0.5, 1); });
  CHECK(none.code == Code::usage);
  CHECK(none.has("leave no training rows"));
}

TEST_CASE("the pass: scaling and digest of one rank, and those of rows in memory") {
  const auto world = parallel::make_communicator();
  const auto alone = world->split(world->rank(), 0);
  kan::test::StreamFile file(*world, 3001, 500);  // 12 chunks of 261 rows
  for (const ScalingKind kind : {ScalingKind::standard, ScalingKind::minmax}) {
    DataOptions options = file.options;
    options.scale_inputs = options.scale_targets = kind;
    CHECK(must_stream(options, file.shape, *world));
    const auto all = open_stream(options, file.shape, *world);
    const auto one = open_stream(options, file.shape, *alone);
    CHECK(all.chunk_rows == 261);
    CHECK(all.chunks == one.chunks);
    CHECK(all.rows == 3001);
    CHECK(all.data.digest == one.data.digest);
    CHECK(all.data.digest.starts_with(kStreamedDigest));
    CHECK(all.data.input_scaling.scale == one.data.input_scaling.scale);
    CHECK(all.data.input_scaling.shift == one.data.input_scaling.shift);
    CHECK(all.data.target_scaling.scale == one.data.target_scaling.scale);

    options.replicate_below = std::int64_t{1} << 30;
    CHECK_FALSE(must_stream(options, file.shape, *world));
    const Data kept = load(options, file.shape);
    double worst = 0;
    for (int c = 0; c < 500; ++c) {
      worst = std::max(
          {worst,
           std::abs(all.data.input_scaling.scale[c] / kept.input_scaling.scale[c] - 1),
           std::abs(all.data.input_scaling.shift[c] - kept.input_scaling.shift[c]) /
               kept.input_scaling.scale[c]});
    }
    CHECK(worst < (kind == ScalingKind::minmax ? 1e-300 : 1e-14));
    CHECK(all.data.train.input_names == kept.train.input_names);
  }
  const std::string before = open_stream(file.options, file.shape, *world).data.digest;
  DataOptions part = file.options;
  part.row_range = {0, 3000};
  CHECK(open_stream(part, file.shape, *world).data.digest != before);
  file.x[1234 * 500 + 17] += 1;
  file.write();
  CHECK(open_stream(file.options, file.shape, *world).data.digest != before);

  // A checkpoint's scaling is taken as it is.
  Scaling inputs{std::vector<double>(500, 3), std::vector<double>(500, 1)};
  const Scaling targets{{2, 2}, {0, 0}};
  file.options.scale_inputs = ScalingKind::standard;
  const auto given = open_stream(file.options, file.shape, *world, &inputs, &targets);
  CHECK(given.data.input_scaling.scale == inputs.scale);
  inputs.scale.pop_back();
  CHECK(error_of([&] {
          open_stream(file.options, file.shape, *world, &inputs, &targets);
        }).code == Code::checkpoint);
}

TEST_CASE("fractions of the rows are kept by every rank, scaled, and must fit") {
  const auto world = parallel::make_communicator();
  kan::test::StreamFile file(*world, 3001, 500);
  DataOptions options = file.options;
  options.scale_targets = ScalingKind::standard;
  options.validation.fraction = 0.2;
  options.test.fraction = 0.1;
  options.replicate_below = 8 << 20;
  const auto stream = open_stream(options, file.shape, *world);
  CHECK(stream.data.validation.rows == 600);
  CHECK(stream.data.test.rows == 300);
  CHECK(stream.rows == 2101);
  std::vector<std::int64_t> all = rows_of(stream.chunks);
  for (const DataSet* set : {&stream.data.validation, &stream.data.test}) {
    CHECK(std::is_sorted(set->row_id.begin(), set->row_id.end()));
    all.insert(all.end(), set->row_id.begin(), set->row_id.end());
    bool same = true;
    const Scaling& scaling = stream.data.target_scaling;
    for (std::int64_t r = 0; r < set->rows; ++r) {
      for (int c = 0; c < 500; ++c)
        same = same && set->x[r * 500 + c] == kan::test::stream_input(set->row_id[r], c);
      for (int c = 0; c < 2; ++c)
        same = same && set->y[r * 2 + c] == (kan::test::stream_target(set->row_id[r], c) -
                                             scaling.shift[c]) /
                                                scaling.scale[c];
    }
    CHECK(same);
  }
  std::sort(all.begin(), all.end());
  CHECK(all == counted(0, 3001));
  // Only training rows count: the mean of 2 r + 1 over them.
  double mean = 0;
  for (const std::int64_t r : rows_of(stream.chunks)) mean += double(2 * r + 1);
  CHECK(std::abs(stream.data.target_scaling.shift[0] - mean / 2101) < 1e-9);

  options.replicate_below = 2 << 20;  // room for 522 rows
  const auto error = error_of([&] { open_stream(options, file.shape, *world); });
  CHECK(error.code == Code::device);
  CHECK(error.has("data/validation: 600 rows of 502 values"));
  CHECK(error.has("data/replicate_below"));
}

TEST_CASE("the first bad row is named on every rank, as load() names it") {
  const auto world = parallel::make_communicator();
  kan::test::StreamFile file(*world, 3001, 500);
  file.x[2000 * 500 + 3] = std::numeric_limits<double>::infinity();
  file.x[1500 * 500 + 499] = std::numeric_limits<double>::quiet_NaN();
  file.write();
  const std::string path = file.options.file;
  auto error = error_of([&] { open_stream(file.options, file.shape, *world); });
  CHECK(error.code == Code::data);
  CHECK(error.message == path +
                             ": dataset 'x' row 1500 column 499 is missing or not a "
                             "number (nan); correct it");
  DataOptions kept = file.options;
  kept.replicate_below = std::int64_t{1} << 30;
  const auto loaded = error_of([&] { load(kept, file.shape); });
  CHECK(loaded.message.starts_with(error.message));

  file.options.nonfinite = Nonfinite::drop;
  error = error_of([&] { open_stream(file.options, file.shape, *world); });
  CHECK(error.code == Code::usage);
  CHECK(error.has("data/nonfinite: drop is not possible"));

  // Class labels.
  file.options.nonfinite = Nonfinite::error;
  file.options.inputs = {"y"};
  file.options.targets = {"labels"};
  world->barrier();
  if (world->rank() == 0) {
    auto out = Hdf5File::create(path);
    out.write("y", file.y, {3001, 2});
    std::vector<double> labels(3001, 1);
    labels[2999] = 3;
    out.write("labels", labels, {3001});
    out.close();
  }
  world->barrier();
  const DataShape classes{.inputs = 2, .targets = 1, .classes = 3};
  error = error_of([&] { open_stream(file.options, classes, *world); });
  CHECK(
      error.has("dataset 'labels' row 2999 column 0 is 3; class labels go from 0 to 2"));
}

TEST_CASE("a file that is damaged, cut or missing is an error on every rank") {
  const auto world = parallel::make_communicator();
  kan::test::StreamFile file(*world, 3001, 500);
  const std::string path = file.options.file;
  world->barrier();
  if (world->rank() == 0) {
    {
      auto out = Hdf5File::create(path);
      out.write("x", file.x, {3001, 500}, {.fletcher32 = true});
      out.write("y", file.y, {3001, 2});
      out.close();
    }
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(7 << 20);
    bytes.write("damage", 6);
  }
  world->barrier();
  auto error = error_of([&] { open_stream(file.options, file.shape, *world); });
  CHECK(error.code == Code::data);
  CHECK(error.has(path + ": rows "));
  CHECK(error.has("of dataset 'x' cannot be read"));
  world->barrier();
  if (world->rank() == 0) std::filesystem::resize_file(path, 7 << 20);
  world->barrier();
  error = error_of([&] { must_stream(file.options, file.shape, *world); });
  CHECK(error.has("cut short"));
  world->barrier();
  if (world->rank() == 0) std::filesystem::remove(path);
  world->barrier();
  error = error_of([&] { must_stream(file.options, file.shape, *world); });
  CHECK(error.has(path + ": no such file"));
}
