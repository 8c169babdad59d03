#include "kan/engine/engine.hpp"

#include <algorithm>

#include "kan/engine/host_engine.hpp"
#include "kan/engine/leaf_sum.hpp"
#include "kan/engine/team_engine.hpp"
#include "kan/error.hpp"
#include "parallel/partition.hpp"

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
  if (!blocks_.empty() && leaves_ == batch.leaves && first_ == batch.first_leaf &&
      last_ == batch.last_leaf)
    return;
  leaves_ = batch.leaves;
  first_ = batch.first_leaf;
  last_ = batch.last_leaf;
  blocks_.clear();
  for (const parallel::Subtree& tree : parallel::aligned_subtrees({first_, last_})) {
    const int count = std::min(int(tree.count), block_leaves(last_ - first_));
    for (int first = int(tree.first); first < tree.first + tree.count; first += count)
      blocks_.push_back({first, count});
  }
}

template <class T>
void Engine<T>::launch(const Exec& exec, const Task& task) {
  cut_blocks(task.batch);
  if (leaves_ > int(leaf_loss_.extent(0))) {
    leaf_loss_ = View1<double>("kan::Engine::leaf_loss", leaves_);
    leaf_correct_ = View1<std::int64_t>("kan::Engine::leaf_correct", leaves_);
    leaf_outside_ =
        View2<std::int64_t>("kan::Engine::leaf_outside", leaves_, plan_.layers.size());
  }
  if (task.with_gradient && blocks_.size() > block_gradient_.extent(0))
    block_gradient_ =
        View2<T>("kan::Engine::block_gradient", blocks_.size(), plan_.table_size);
  run(exec, task);
}

template <class T>
void Engine<T>::gradient(const Exec& exec, const Batch<T>& batch, LossKind loss,
                         const View2<T>& input_gradient) {
  launch(exec, Task{batch, loss, true, {}, input_gradient});
}

template <class T>
void Engine<T>::evaluate(const Exec& exec, const Batch<T>& batch, LossKind loss,
                         const View2<T>& prediction) {
  launch(exec, Task{batch, loss, false, prediction, {}});
}

template <class T>
View1<T> Engine<T>::add(const Exec& exec, int first, int count) {
  const auto begin = std::find_if(blocks_.begin(), blocks_.end(),
                                  [=](const Block& b) { return b.first == first; });
  T* const sum = block_gradient_.data() + (begin - blocks_.begin()) * plan_.table_size;
  add_leaves(exec, sum, count / begin->count, plan_.table_size);
  return View1<T>(sum, plan_.table_size);
}

template <class T>
BatchSums Engine<T>::sums(const Exec& exec) const {
  exec.fence("kan::Engine::sums");
  const auto loss = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), leaf_loss_);
  const auto correct =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), leaf_correct_);
  const auto outside =
      Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), leaf_outside_);
  const int layers = int(plan_.layers.size());
  BatchSums sums;
  sums.outside.assign(layers, 0);
  for (int v = first_; v < last_; ++v) {
    sums.correct += correct(v);
    for (int l = 0; l < layers; ++l) sums.outside[l] += outside(v, l);
  }
  host_loss_.assign(loss.data(), loss.data() + leaves_);
  for (const parallel::Subtree& tree : parallel::aligned_subtrees({first_, last_}))
    sums.loss += this->loss(int(tree.first), int(tree.count));
  return sums;
}

template <class T>
double Engine<T>::loss(int first, int count) const {
  std::vector<double> tree(host_loss_.begin() + first,
                           host_loss_.begin() + first + count);
  for (int step = 1; step < count; step *= 2)
    for (int b = 0; b < count; b += 2 * step) tree[b] += tree[b + step];
  return tree[0];
}

template <class T>
std::unique_ptr<Engine<T>> make_engine(const Exec& exec, const Network<T>& network,
                                       Kernels kernels) {
  if (kernels == Kernels::automatic)
    kernels = kHostExecution ? Kernels::host : Kernels::team;
  if (kernels == Kernels::team) return make_team_engine(exec, network);
  if constexpr (kHostExecution) return make_host_engine(exec, network);
  throw Error(Code::usage,
              "network/kernels = host: this build runs on a device; use team or auto");
}

template class Engine<float>;
template class Engine<double>;
template std::unique_ptr<Engine<float>> make_engine(const Exec&, const Network<float>&,
                                                    Kernels);
template std::unique_ptr<Engine<double>> make_engine(const Exec&, const Network<double>&,
                                                     Kernels);

}  // namespace kan
