// Plans the scratch of the team form and launches it. The tile is chosen from the shape
// and the precision alone, for a scratch of 32 KiB that every device has, so that bits do
// not depend on the device; shapes too wide for that keep their scratch in global memory.
#include "kan/engine/team_engine.hpp"

#include <algorithm>

#include "kan/engine/team_tile.hpp"
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
  TeamEngine(const Exec&, const Network<T>& network)
      : Engine<T>(make_plan(network, 1, false)),
        plans_("kan::TeamEngine::plans", plan_.layers.size()),
        edges_(network.shape().edges()) {
    const Kokkos::View<const LayerPlan*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(
        plan_.layers.data(), plan_.layers.size());
    Kokkos::deep_copy(plans_, host);
    boundary_numbers_ = plan_.layers.back().out;
    order_ = plan_.layers[0].order;
    for (const LayerPlan& p : plan_.layers) {
      boundary_numbers_ += p.in;
      most_order_ = std::max(most_order_, p.order);
      if (p.order != order_) order_ = 0;
    }
    for (tile_ = kLargestTile; tile_ > kSmallestTile && bytes() > kScratchBytes;)
      tile_ /= 2;
    if (bytes() > kScratchBytes) {
      scratch_level_ = 1;
      tile_ = kLargestTile;
    }
  }

  std::string name() const override { return "tile/team"; }
  int vector_bytes() const override { return 0; }
  std::int64_t workspace_bytes() const override {
    return plan_.table_size * std::int64_t(sizeof(T)) + bytes();
  }

  void form(const Exec& exec, const View1<const T>& parameters) override {
    Kokkos::parallel_for("kan::TeamEngine::form",
                         Kokkos::RangePolicy<Exec>(exec, 0, edges_),
                         FormTable<T>{plans_.data(), parameters.data(), table_.data()});
  }

  void finish(const Exec& exec, const View1<const T>& parameters,
              const View1<const T>& root, const View1<T>& gradient) override {
    Kokkos::parallel_for("kan::TeamEngine::finish",
                         Kokkos::RangePolicy<Exec>(exec, 0, edges_),
                         FinishGradient<T>{plans_.data(), parameters.data(), root.data(),
                                           gradient.data()});
  }

 protected:
  using Engine<T>::plan_;
  using Engine<T>::table_;
  using Task = typename Engine<T>::Task;

  int block_leaves(int) const override { return 1; }

  void run(const Exec& exec, const Task& what) override {
    const Batch<T>& b = what.batch;
    TeamTask<T> task;
    task.plans = plans_.data();
    task.layers = int(plan_.layers.size());
    task.widest = plan_.widest;
    task.most_order = most_order_;
    task.knots = this->knots_.data();
    task.table = table_.data();
    task.inputs = b.inputs.data();
    task.targets = b.targets.data();
    task.order = b.order.extent(0) > 0 ? b.order.data() : nullptr;
    task.begin = b.begin;
    task.size = b.size;
    task.table_size = plan_.table_size;
    task.leaves = b.leaves;
    task.first_leaf = b.first_leaf;
    task.columns = int(b.targets.extent(1));
    task.tile = tile_;
    task.boundary_numbers = boundary_numbers_;
    task.loss = what.loss;
    task.with_gradient = what.with_gradient;
    task.leaf_gradient = this->block_gradient_.data();
    task.prediction = what.prediction.extent(0) > 0 ? what.prediction.data() : nullptr;
    task.input_gradient =
        what.input_gradient.extent(0) > 0 ? what.input_gradient.data() : nullptr;
    task.leaf_loss = this->leaf_loss_.data();
    task.leaf_correct = this->leaf_correct_.data();
    task.leaf_outside = this->leaf_outside_.data();
    task.scratch_level = scratch_level_;
    const int leaves = b.last_leaf - b.first_leaf;
    if (leaves <= 0) return;
    switch (order_) {
      case 1:
        return launch_team_tile<T, 1>(exec, task, leaves, bytes());
      case 2:
        return launch_team_tile<T, 2>(exec, task, leaves, bytes());
      case 3:
        return launch_team_tile<T, 3>(exec, task, leaves, bytes());
      case 4:
        return launch_team_tile<T, 4>(exec, task, leaves, bytes());
      case 5:
        return launch_team_tile<T, 5>(exec, task, leaves, bytes());
      default:
        return launch_team_tile<T, 0>(exec, task, leaves, bytes());
    }
  }

 private:
  std::int64_t bytes() const {
    return team_bytes<T>(boundary_numbers_, plan_.widest, most_order_, tile_);
  }

  View1<LayerPlan> plans_;
  std::int64_t edges_;
  int boundary_numbers_ = 0, most_order_ = 0, order_ = 0;
  int tile_ = kLargestTile, scratch_level_ = 0;
};

}  // namespace

template <class T>
std::unique_ptr<Engine<T>> make_team_engine(const Exec& exec, const Network<T>& network) {
  return std::make_unique<TeamEngine<T>>(exec, network);
}

template std::unique_ptr<Engine<float>> make_team_engine(const Exec&,
                                                         const Network<float>&);
template std::unique_ptr<Engine<double>> make_team_engine(const Exec&,
                                                          const Network<double>&);

}  // namespace kan
