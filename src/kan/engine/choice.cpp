#include "kan/engine/choice.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>

namespace kan {
namespace {

constexpr std::int64_t kCacheBytes = 512 << 10, kLargeBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMostRows = 4096;
constexpr double kClear = 0.97;  // of the time of the tile engine: less is a gain

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Rows spread over the grid of the first layer; targets 0.
template <class T>
Batch<T> make_rows(const Network<T>& network, LossKind loss, std::int64_t rows) {
  const Shape& shape = network.shape();
  const LayerShape& first = shape.layer(0);
  const auto& knots = network.knots(0).values;
  const double low = knots[first.order], high = knots[first.order + first.grid];
  const View2<T> inputs("kan::choose_engine::inputs", rows, first.in);
  const auto host = Kokkos::create_mirror_view(inputs);
  std::uint32_t state = 1;
  for (std::int64_t k = 0; k < std::int64_t(host.size()); ++k) {
    state = state * 1664525u + 1013904223u;
    host.data()[k] = T(low + (high - low) * state / 4294967296.0);
  }
  Kokkos::deep_copy(inputs, host);
  Batch<T> batch;
  batch.inputs = inputs;
  batch.targets = View2<T>("kan::choose_engine::targets", rows,
                           target_columns(loss, shape.outputs()));
  batch.size = rows;
  return batch;
}

}  // namespace

EngineKind engine_kind(const std::string& name) {
  return name.starts_with("tile/")    ? EngineKind::tile
         : name.starts_with("layer/") ? EngineKind::layer
                                      : EngineKind::automatic;
}

template <class T>
EngineChoice choose_engine(const Exec& exec, const Network<T>& network, Kernels kernels,
                           LossKind loss, bool reproducible, std::int64_t rows,
                           parallel::Communicator& communicator) {
  EngineChoice choice;
  if (!kHostExecution || kernels == Kernels::team) return choice;
  auto tile = make_engine(exec, network, Kernels::host, EngineKind::tile);
  const std::int64_t bytes = tile->plan().table_size * std::int64_t(sizeof(T));
  if (bytes <= kCacheBytes) return choice;
  if (reproducible) {
    if (bytes > kLargeBytes) choice.kind = EngineKind::layer;
    choice.why = "by size, reproducible";
    return choice;
  }
  Batch<T> batch = make_rows(network, loss, std::clamp<std::int64_t>(rows, 1, kMostRows));
  while (2 * batch.leaves <= int(exec.concurrency())) batch.leaves *= 2;
  batch.last_leaf = batch.leaves;
  std::unique_ptr<Engine<T>> engines[] = {
      std::move(tile), make_engine(exec, network, Kernels::host, EngineKind::layer)};
  double best[2];
  for (int round = 0; round < 3; ++round)
    for (int e = 0; e < 2; ++e) {
      if (round == 0) engines[e]->form(exec, network.parameters());
      const auto start = std::chrono::steady_clock::now();
      engines[e]->gradient(exec, batch, loss);
      engines[e]->add(exec, 0, batch.leaves);
      exec.fence("kan::choose_engine");
      const double seconds = seconds_since(start);
      best[e] = round <= 1 ? seconds : std::min(best[e], seconds);  // first: warm-up
    }
  communicator.broadcast(std::span<double>(best));
  if (best[1] < kClear * best[0]) choice.kind = EngineKind::layer;
  char text[96];
  std::snprintf(text, sizeof text, "measured %.3g ms a gradient by tiles, %.3g by layers",
                1e3 * best[0], 1e3 * best[1]);
  choice.why = text;
  return choice;
}

template EngineChoice choose_engine(const Exec&, const Network<float>&, Kernels, LossKind,
                                    bool, std::int64_t, parallel::Communicator&);
template EngineChoice choose_engine(const Exec&, const Network<double>&, Kernels,
                                    LossKind, bool, std::int64_t,
                                    parallel::Communicator&);

}  // namespace kan
