// An HDF5 file that all ranks of a test read, made by rank 0: row r of `columns` inputs
// and two targets is a function of r, so that any row can be told from its values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "io/dataset/stream_order.hpp"
#include "io/hdf5.hpp"
#include "parallel/communicator.hpp"
#include "unit/scratch.hpp"

namespace kan::test {

/// Exact in float: the row's number first, then numbers below 1.
inline double stream_input(std::int64_t row, int column) {
  return column == 0 ? double(row) : double((row * 31 + 7 * column) % 64) / 64;
}
inline double stream_target(std::int64_t row, int column) {
  return column == 0 ? double(2 * row + 1) : double(row % 5);
}

/// The file's rows in the order of an epoch with windows of `window` rows.
inline std::vector<std::int64_t> epoch_of(io::StreamOrder& order, std::int64_t epoch,
                                          std::int64_t window) {
  order.start(epoch);
  std::vector<std::int64_t> out;
  for (std::int64_t at = 0; at < order.rows(); at += window) {
    const parallel::Range range{at, std::min(at + window, order.rows())};
    std::vector<std::int64_t> rows;
    for (const io::RowBlock& block : order.blocks(range))
      for (std::int64_t r = 0; r < block.rows; ++r) rows.push_back(block.begin + r);
    KAN_REQUIRE(std::int64_t(rows.size()) == range.size(), "a window has other rows");
    for (const std::uint32_t i : order.window_order(range)) out.push_back(rows[i]);
  }
  return out;
}

class StreamFile {
 public:
  StreamFile(parallel::Communicator& world, std::int64_t rows, int columns)
      : world_(world) {
    shape.inputs = columns;
    shape.targets = 2;
    options.source = "hdf5";
    options.inputs = {"x"};
    options.targets = {"y"};
    options.replicate_below = 1;
    options.file = scratch_.file("rows.h5");
    world.broadcast(options.file);
    x.resize(rows * columns);
    y.resize(rows * 2);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) x[r * columns + c] = stream_input(r, c);
      for (int c = 0; c < 2; ++c) y[r * 2 + c] = stream_target(r, c);
    }
    write();
  }
  ~StreamFile() {
    if (std::uncaught_exceptions() == 0) world_.barrier();  // rank 0 removes it
  }

  /// Puts x and y into the file. Collective.
  void write() {
    world_.barrier();  // nobody reads it any more
    if (world_.rank() == 0) {
      auto file = io::Hdf5File::create(options.file);
      const std::int64_t rows = std::int64_t(y.size()) / 2;
      file.write("x", x, {rows, shape.inputs});
      file.write("y", y, {rows, 2});
      file.close();
    }
    world_.barrier();
  }

  io::DataOptions options;
  io::DataShape shape;
  std::vector<double> x, y;

 private:
  parallel::Communicator& world_;
  Scratch scratch_;
};

}  // namespace kan::test
