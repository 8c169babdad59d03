#include "run/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kan/error.hpp"
#include "parallel/memory.hpp"

namespace kan::run {

MemoryEstimate estimate_memory(const Shape& shape, const MemoryInputs& inputs) {
  constexpr std::int64_t kTile = 64, kPad = 16;  // rows, numbers of a padded row
  MemoryEstimate e;
  std::int64_t table = 0, tile = 0;
  for (int l = 0; l < shape.layers(); ++l) {
    const LayerShape& s = shape.layer(l);
    const std::int64_t out = (std::int64_t(s.out) + kPad - 1) / kPad * kPad;
    table += std::int64_t(s.in) * (s.grid + 2 * s.order + 1) * (s.out == 1 ? 4 : out);
    tile += kTile * ((s.in + kPad) * (2 * (s.order + 1) + 5));
  }
  tile += 2 * kTile * (shape.outputs() + kPad);
  const std::int64_t columns = shape.inputs() + inputs.target_columns;
  e.data = inputs.rows * columns * (inputs.bytes + std::int64_t(sizeof(double)));
  e.windows = inputs.window_bytes;
  e.parameters = (2 * shape.parameters() + table) * inputs.bytes;
  e.optimizer = inputs.moments * shape.parameters() * inputs.bytes;
  // A thread adds up its leaves one by one, along a tree.
  int tables = 1;
  for (int leaves = inputs.leaves / inputs.threads; leaves > 1; leaves /= 2) ++tables;
  e.leaves = std::min(inputs.leaves, inputs.threads * tables) * table * inputs.bytes;
  e.activations = inputs.threads * tile * inputs.bytes;
  return e;
}

void check_memory(const MemoryEstimate& estimate, int ranks_on_node) {
  const parallel::HostMemory host = parallel::host_memory();
  const double needed = double(estimate.total()) * ranks_on_node;
  if (host.free <= 0 || needed <= double(host.free)) return;
  const std::vector<std::pair<std::int64_t, const char*>> parts = {
      {estimate.data, "the data (fewer rows)"},
      {estimate.windows, "windows of streamed rows (data/replicate_below)"},
      {estimate.parameters, "the parameters (network/widths, network/grid)"},
      {estimate.optimizer, "the optimizer (optimizer/type = sgd has no moments)"},
      {estimate.leaves, "gradient sums (parallel/max_shards, run/threads)"},
      {estimate.activations, "activations (run/threads)"}};
  const auto largest = *std::max_element(parts.begin(), parts.end());
  throw Error(
      Code::device,
      fmt::format("memory: {} needed on this node, {} free ({}); most of it, {}, is {}",
                  bytes_text(needed), bytes_text(double(host.free)), host.limit,
                  bytes_text(double(largest.first) * ranks_on_node), largest.second));
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 6; ++unit) bytes /= 1024;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace kan::run
