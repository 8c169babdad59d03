#include "kan/engine/engine.hpp"

#include <algorithm>

#include "kan/engine/host_engine.hpp"
#include "kan/engine/leaf_sum.hpp"
#include "kan/engine/team_engine.hpp"
#include "kan/error.hpp"

namespace kan {

template <class T>
Engine<T>::Engine(Plan<T> plan)
    : plan_(std::move(plan)),
      knots_("kan::Engine::knots", plan_.knots.size()),
      table_("kan::Engine::table", plan_.table_size) {
  const Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> knots(
      plan_.knots.data(), plan_.knots.size());
  Kokkos::deep_copy(knots_, knots);
}

template <class T>
void Engine<T>::cut_blocks(const Batch<T>& batch) {
  const auto known = std::find_if(cuts_.begin(), cuts_.end(), [&](const Cut& c) {
    return c.leaves == batch.leaves && c.first == batch.first_leaf &&
           c.last == batch.last_leaf;
  });
  if (known != cuts_.end()) {
    cut_ = &*known;
    return;
  }
  Cut& cut = cuts_.emplace_back(
      Cut{batch.leaves,
          batch.first_leaf,
          batch.last_leaf,
          {},
          parallel::aligned_subtrees({batch.first_leaf, batch.last_leaf})});
  for (const parallel::Subtree& tree : cut.subtrees) {
    const int count = std::min(int(tree.count), block_leaves(cut.last - cut.first));
    for (int first = int(tree.first); first < tree.first + tree.count; first += count)
      cut.blocks.push_back({first, count});
  }
  cut_ = &cut;
}

template <class T>
void Engine<T>::make_room(bool with_gradient) {
  const int leaves = cut_->leaves;
  if (leaves > int(leaf_loss_.extent(0))) {
    leaf_loss_ = View1<double>("kan::Engine::leaf_loss", leaves);
    leaf_correct_ = View1<std::int64_t>("kan::Engine::leaf_correct", leaves);
    leaf_outside_ =
        View2<std::int64_t>("kan::Engine::leaf_outside", leaves, plan_.layers.size());
    host_loss_ = Kokkos::create_mirror_view(leaf_loss_);
    host_correct_ = Kokkos::create_mirror_view(leaf_correct_);
    host_outside_ = Kokkos::create_mirror_view(leaf_outside_);
    tree_.resize(leaves);
    ++moves_;
  }
  if (with_gradient && cut_->blocks.size() > block_gradient_.extent(0)) {
    block_gradient_ =
        View2<T>("kan::Engine::block_gradient", cut_->blocks.size(), plan_.table_size);
    ++moves_;
  }
}

template <class T>
void Engine<T>::launch(const Queue& queue, const Task& task) {
  cut_blocks(task.batch);
  make_room(task.with_gradient);
  run(queue, task);
}

template <class T>
void Engine<T>::gradient(const Queue& queue, const Batch<T>& batch, LossKind loss,
                         const View2<T>& input_gradient) {
  launch(queue, Task{batch, loss, true, {}, input_gradient});
}

template <class T>
void Engine<T>::evaluate(const Queue& queue, const Batch<T>& batch, LossKind loss,
                         const View2<T>& prediction) {
  launch(queue, Task{batch, loss, false, prediction, {}});
}

template <class T>
View1<T> Engine<T>::add(const Queue& queue, int first, int count) {
  const std::vector<Block>& blocks = cut_->blocks;
  const auto begin = std::find_if(blocks.begin(), blocks.end(),
                                  [=](const Block& b) { return b.first == first; });
  T* const sum = block_gradient_.data() + (begin - blocks.begin()) * plan_.table_size;
  add_leaves(queue, sum, count / begin->count, plan_.table_size);
  return View1<T>(sum, plan_.table_size);
}

template <class T>
const BatchSums& Engine<T>::sums(const Exec& exec) {
  if constexpr (!kHostExecution) {
    Kokkos::deep_copy(exec, host_loss_, leaf_loss_);
    Kokkos::deep_copy(exec, host_correct_, leaf_correct_);
    Kokkos::deep_copy(exec, host_outside_, leaf_outside_);
  }
  exec.fence(label("kan::Engine::sums"));
  const int layers = int(plan_.layers.size());
  sums_.loss = 0;
  sums_.correct = 0;
  sums_.outside.assign(layers, 0);
  for (int v = cut_->first; v < cut_->last; ++v) {
    sums_.correct += host_correct_(v);
    for (int l = 0; l < layers; ++l) sums_.outside[l] += host_outside_(v, l);
  }
  for (const parallel::Subtree& tree : cut_->subtrees)
    sums_.loss += loss(int(tree.first), int(tree.count));
  return sums_;
}

template <class T>
double Engine<T>::loss(int first, int count) {
  std::copy_n(host_loss_.data() + first, count, tree_.begin());
  for (int step = 1; step < count; step *= 2)
    for (int b = 0; b < count; b += 2 * step) tree_[b] += tree_[b + step];
  return tree_[0];
}

template <class T>
std::unique_ptr<Engine<T>> make_engine(const Exec& exec, const Network<T>& network,
                                       Kernels kernels, EngineKind kind) {
  if (kernels == Kernels::automatic)
    kernels = kHostExecution ? Kernels::host : Kernels::team;
  if (kernels == Kernels::team && kind == EngineKind::layer)
    throw Error(Code::usage,
                "network/engine = layer: it has no kernels for GPUs (network/kernels = "
                "team); use tile or auto");
  if (kernels == Kernels::team) return make_team_engine(exec, network);
  if constexpr (kHostExecution)
    return kind == EngineKind::layer ? make_layer_engine(exec, network)
                                     : make_host_engine(exec, network);
  throw Error(Code::usage,
              "network/kernels = host: this build runs on a device; use team or auto");
}

template class Engine<float>;
template class Engine<double>;
template std::unique_ptr<Engine<float>> make_engine(const Exec&, const Network<float>&,
                                                    Kernels, EngineKind);
template std::unique_ptr<Engine<double>> make_engine(const Exec&, const Network<double>&,
                                                     Kernels, EngineKind);

}  // namespace kan
