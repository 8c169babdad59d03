// Launches the team form: table, chunks of rows through both stages, flat gradient. How
// work is cut is the plan's (team_plan.hpp); buffers are made at the first batch of a
// size.
#include "kan/engine/team_engine.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "kan/engine/team_gradient.hpp"
#include "kan/engine/wide_table.hpp"

namespace kan {
namespace {

constexpr std::int64_t kScratchBytes = 32 * 1024;
constexpr int kLargestTile = 32, kSmallestTile = 4;

// Layer and edge of a running edge number.
KAN_INLINE const LayerPlan& find_edge(const LayerPlan* plans, std::int64_t edge,
                                      std::int64_t& in_layer) {
  int l = 0;
  for (; edge >= std::int64_t(plans[l].in) * plans[l].out; ++l)
    edge -= std::int64_t(plans[l].in) * plans[l].out;
  in_layer = edge;
  return plans[l];
}

template <class T>
struct FormTable {
  const LayerPlan* plans;
  const T* parameters;
  T* table;
  KOKKOS_FUNCTION void operator()(std::int64_t edge) const {
    std::int64_t e;
    const LayerPlan& p = find_edge(plans, edge, e);
    const int input = int(e / p.out), o = int(e % p.out);
    form_wide(p, parameters, input, o, o + 1, table);
  }
};

template <class T>
struct FinishGradient {
  const LayerPlan* plans;
  const T *parameters, *sums;
  T* gradient;
  KOKKOS_FUNCTION void operator()(std::int64_t edge) const {
    std::int64_t e;
    const LayerPlan& p = find_edge(plans, edge, e);
    const int input = int(e / p.out), o = int(e % p.out);
    finish_wide(p, parameters, sums, input, o, o + 1, gradient);
  }
};

template <class T>
class TeamEngine final : public Engine<T> {
 public:
  TeamEngine(const Exec&, const Network<T>& network, std::int64_t workspace)
      : Engine<T>(make_plan(network, 1, false)),
        teams_(plan_, workspace),
        plans_(to_device("kan::TeamEngine::plans", plan_.layers)),
        cuts_(to_device("kan::TeamEngine::cuts", teams_.cuts())),
        edges_(network.shape().edges()) {}

  std::string name() const override { return "tile/team"; }
  int vector_bytes() const override { return 0; }
  std::int64_t workspace_bytes() const override {
    return std::int64_t((table_.size() + buffer_.size()) * sizeof(T) +
                        tile_loss_.size() * sizeof(double) +
                        tile_counts_.size() * sizeof(int));
  }

  void form(const Queue& queue, const View1<const T>& parameters) override {
    queue.for_each("kan::TeamEngine::form", edges_,
                   FormTable<T>{plans_.data(), parameters.data(), table_.data()});
  }

  void finish(const Queue& queue, const View1<const T>& parameters,
              const View1<const T>& root, const View1<T>& gradient) override {
    queue.for_each("kan::TeamEngine::finish", edges_,
                   FinishGradient<T>{plans_.data(), parameters.data(), root.data(),
                                     gradient.data()});
  }

 protected:
  using Engine<T>::plan_;
  using Engine<T>::table_;
  using Task = typename Engine<T>::Task;
  using Sizes = typename TeamPlan<T>::Sizes;

  int block_leaves(int) const override { return 1; }

  // One chunk: the nodes of a graph with teams hold one of ten places for scratch each,
  // and where there are more chunks the launches do not count. Graphs of Kokkos 4 do not
  // keep scratch in global memory.
  bool recordable(const Batch<T>& b) const override {
    const Sizes sizes = teams_.sizes(b.size, b.leaves);
    return sizes.leaves >= b.last_leaf - b.first_leaf &&
           sizes.part_rows >= sizes.most_rows &&
           (KOKKOS_VERSION >= 50000 || sizes.activations_level == 0);
  }

  void run(const Queue& queue, const Task& what) override {
    const Batch<T>& b = what.batch;
    if (b.last_leaf <= b.first_leaf) return;
    const Sizes sizes = teams_.sizes(b.size, b.leaves);
    make_buffers(sizes, what.with_gradient);
    TeamTask<T> task = task_of(what, sizes);
    for (int leaf = b.first_leaf; leaf < b.last_leaf; leaf += sizes.leaves) {
      task.first_leaf = leaf;
      task.leaves = std::min(sizes.leaves, b.last_leaf - leaf);
      for (task.part_begin = 0; task.part_begin < sizes.most_rows;
           task.part_begin += sizes.part_rows)
        run_chunk(queue, task, sizes);
    }
  }

 private:
  template <class N>
  static View1<N> to_device(const char* label, const std::vector<N>& from) {
    const View1<N> view(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)), from.size());
    Kokkos::deep_copy(view,
                      Kokkos::View<const N*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                          from.data(), from.size()));
    return view;
  }

  // Room for a chunk, kept for the next; the first batch is as large as any, mostly.
  void make_buffers(const Sizes& sizes, bool with_gradient) {
    const auto grow = [this](auto& view, const char* label, std::int64_t size) {
      if (size <= std::int64_t(view.size())) return;
      view = std::decay_t<decltype(view)>(
          Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)), size);
      ++this->moves_;
    };
    const std::int64_t tiles = std::int64_t(sizes.tiles) * sizes.leaves;
    grow(tile_loss_, "kan::TeamEngine::tile_loss", tiles);
    grow(tile_counts_, "kan::TeamEngine::tile_counts",
         tiles * (std::int64_t(plan_.layers.size()) + 1));
    if (!with_gradient || sizes.chunk_rows <= buffer_rows_) return;
    buffer_rows_ = sizes.chunk_rows;
    grow(buffer_, "kan::TeamEngine::buffer", buffer_rows_ * teams_.row_numbers());
  }

  TeamTask<T> task_of(const Task& what, const Sizes& sizes) const {
    const Batch<T>& b = what.batch;
    TeamTask<T> task;
    task.plans = plans_.data();
    task.cuts = cuts_.data();
    task.layers = int(plan_.layers.size());
    task.knots = this->knots_.data();
    task.table = table_.data();
    task.now = b.rows();
    task.stored = b.stored;
    task.size = b.size;
    task.table_size = plan_.table_size;
    task.columns = int(b.targets.extent(1));
    task.loss = what.loss;
    task.with_gradient = what.with_gradient;
    task.leaves_of_batch = b.leaves;
    task.part_rows = sizes.part_rows;
    task.tile = sizes.tile;
    task.tiles = sizes.tiles;
    task.block = sizes.block;
    task.widest = teams_.widest();
    task.activations_level = sizes.activations_level;
    task.teams = teams_.teams();
    task.buffer = buffer_.data();
    task.buffer_rows = buffer_rows_;
    task.leaf_gradient = this->block_gradient_.data();
    task.first_gradient = b.first_leaf;
    task.prediction = what.prediction.extent(0) > 0 ? what.prediction.data() : nullptr;
    task.input_gradient =
        what.input_gradient.extent(0) > 0 ? what.input_gradient.data() : nullptr;
    task.leaf_loss = this->leaf_loss_.data();
    task.tile_loss = tile_loss_.data();
    task.leaf_correct = this->leaf_correct_.data();
    task.leaf_outside = this->leaf_outside_.data();
    task.tile_counts = tile_counts_.data();
    return task;
  }

  void run_chunk(const Queue& queue, const TeamTask<T>& task, const Sizes& sizes) const {
    switch (teams_.order()) {
      case 1:
        return launch<1>(queue, task, sizes);
      case 2:
        return launch<2>(queue, task, sizes);
      case 3:
        return launch<3>(queue, task, sizes);
      case 4:
        return launch<4>(queue, task, sizes);
      case 5:
        return launch<5>(queue, task, sizes);
      default:
        return launch<0>(queue, task, sizes);
    }
  }

  template <int K>
  void launch(const Queue& queue, const TeamTask<T>& task, const Sizes& sizes) const {
    launch_team_tile<T, K>(queue, task, sizes.scratch);
    if (task.with_gradient)
      launch_team_gradient<T, K>(queue, task, teams_.sums_in_table(),
                                 teams_.gradient_scratch());
    else
      queue.for_each("kan::TeamSums", task.leaves, TeamSums<T>{task});
  }

  TeamPlan<T> teams_;
  View1<LayerPlan> plans_;
  View1<TeamCut> cuts_;
  std::int64_t edges_;
  View1<T> buffer_;
  std::int64_t buffer_rows_ = 0;
  View1<double> tile_loss_;
  View1<int> tile_counts_;
};

}  // namespace

template <class T>
std::unique_ptr<Engine<T>> make_team_engine(const Exec& exec, const Network<T>& network,
                                            std::int64_t workspace) {
  return std::make_unique<TeamEngine<T>>(exec, network, workspace);
}

template std::unique_ptr<Engine<float>> make_team_engine(const Exec&,
                                                         const Network<float>&,
                                                         std::int64_t);
template std::unique_ptr<Engine<double>> make_team_engine(const Exec&,
                                                          const Network<double>&,
                                                          std::int64_t);

}  // namespace kan
