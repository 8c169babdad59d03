// Each thread has a workspace for one tile: activations and their gradients at every
// layer boundary, and what each layer's forward pass leaves for its backward pass
// (Weights). The workspace is zero at first and places that pad a row are never written
// with anything but zero, so padded lanes contribute nothing.
#include "kan/engine/host_engine.hpp"

#include <algorithm>

#include "kan/engine/host_layer.hpp"
#include "kan/engine/point.hpp"

namespace kan {

template <class T>
LayerKernels<T> host_layer_kernels(const LayerPlan& plan) {
  switch (plan.order) {
    case 1:
      return host_kernels_of_order<T, 1>(plan.narrow);
    case 2:
      return host_kernels_of_order<T, 2>(plan.narrow);
    case 3:
      return host_kernels_of_order<T, 3>(plan.narrow);
    case 4:
      return host_kernels_of_order<T, 4>(plan.narrow);
    default:
      return host_kernels_of_order<T, 5>(plan.narrow);
  }
}

namespace {

constexpr int kTile = 64;   // rows: bits of a word
constexpr int kSlack = 64;  // numbers past the end that vectors may touch

// Inputs outside [lo, hi]; integers only, so the order does not matter.
template <class T>
std::int64_t count_outside(const LayerPlan& p, const T* knots, const T* x, int samples) {
  std::int64_t count = 0;
  if (p.uniform) {
    const T low = knots[p.knots + 2 * p.order];
    const T high = knots[p.knots + 2 * p.order + p.grid];
    const int width = p.ld_in == p.in ? samples * p.in : p.in;
    const int runs = p.ld_in == p.in ? 1 : samples;
    for (int s = 0; s < runs; ++s) {
      const T* row = x + std::int64_t(s) * p.ld_in;
      int in_row = 0;
      for (int i = 0; i < width; ++i) in_row += int(row[i] < low) | int(row[i] > high);
      count += in_row;
    }
    return count;
  }
  constexpr int lanes = kLanes<T>;
  const int run = samples * p.ld_in, whole = run / lanes * lanes;
  const T* low = knots + p.columns + std::int64_t(p.order) * p.period;
  const T* high = low + std::int64_t(p.grid) * p.period;
  Integer<Vec<T>> outside{};
  for (int q = 0; q < whole; q += lanes) {
    const int r = q % p.period;
    const Vec<T> at = load<T>(x + q);
    outside -= (at < load<T>(low + r)) | (at > load<T>(high + r));
  }
  for (int l = 0; l < lanes; ++l) count += outside[l];
  for (int q = whole; q < run; ++q) count += outside_grid(x[q], p, knots, q % p.ld_in);
  return count;
}

template <class T>
class HostEngine final : public Engine<T> {
 public:
  HostEngine(const Exec& exec, const Network<T>& network)
      : Engine<T>(make_plan(network, kLanes<T>, true)), threads_(exec.concurrency()) {
    lay_out_workspace();
    workspace_ = View2<T>("kan::HostEngine::workspace", threads_, workspace_size_);
    for (const LayerPlan& p : plan_.layers) {
      kernels_.push_back(host_layer_kernels<T>(p));
      // A narrow item is small: several inputs together.
      const int inputs = p.narrow ? 8 : 1;
      for (int i = 0; i < p.in; i += inputs)
        items_.push_back({int(kernels_.size()) - 1, i, std::min(p.in, i + inputs)});
    }
  }

  std::string name() const override { return "tile/host"; }
  int vector_bytes() const override { return KAN_VECTOR_BYTES; }
  std::int64_t workspace_bytes() const override {
    return (threads_ * workspace_size_ + plan_.table_size) * std::int64_t(sizeof(T));
  }

  void form(const Exec& exec, const View1<const T>& parameters) override {
    for_items(exec, "kan::HostEngine::form", [&, table = table_.data()](const Item& it) {
      kernels_[it.layer].form(plan_.layers[it.layer], knots_.data(), parameters.data(),
                              it.first, it.last, table);
    });
  }

  void finish(const Exec& exec, const View1<const T>& parameters,
              const View1<const T>& root, const View1<T>& gradient) override {
    for_items(exec, "kan::HostEngine::finish", [&](const Item& it) {
      kernels_[it.layer].finish(plan_.layers[it.layer], knots_.data(), parameters.data(),
                                root.data(), it.first, it.last, gradient.data());
    });
  }

 protected:
  using Engine<T>::plan_;
  using Engine<T>::knots_;
  using Engine<T>::table_;
  using Task = typename Engine<T>::Task;
  using Block = typename Engine<T>::Block;

  // A block for each thread, or four where threads are not a power of two.
  int block_leaves(int leaves) const override {
    const std::int64_t blocks =
        (threads_ & (threads_ - 1)) == 0 ? threads_ : 4 * threads_;
    int count = 1;
    while (2 * count * blocks <= leaves) count *= 2;
    return count;
  }

  void run(const Exec& exec, const Task& task) override {
    int levels = 0;
    for (const Block& b : this->blocks_)
      while (1 << levels < b.count) ++levels;
    if (task.with_gradient && levels > levels_) {
      levels_ = levels;
      partial_ =
          View2<T>("kan::HostEngine::partial", threads_ * levels_, plan_.table_size);
    }
    const Kokkos::Experimental::UniqueToken<
        Exec, Kokkos::Experimental::UniqueTokenScope::Global>
        token(exec);
    const HostEngine* self = this;
    const Task* what = &task;
    Kokkos::parallel_for(
        "kan::HostEngine::leaves",
        Kokkos::RangePolicy<Exec>(exec, 0, int(this->blocks_.size())), [=](int b) {
          const int slot = token.acquire();
          const Block block = self->blocks_[b];
          T* sum = what->with_gradient ? &self->block_gradient_(b, 0) : nullptr;
          self->run_leaves(*what, block.first, block.count, slot, 0, sum);
          token.release(slot);
        });
    exec.fence("kan::HostEngine::leaves");
  }

 private:
  struct Item {
    int layer, first, last;
  };

  template <class Call>
  void for_items(const Exec& exec, const char* label, const Call& call) const {
    const Item* items = items_.data();
    const Call* todo = &call;
    Kokkos::parallel_for(label, Kokkos::RangePolicy<Exec>(exec, 0, items_.size()),
                         [=](std::size_t k) { (*todo)(items[k]); });
    exec.fence(label);
  }

  // Offsets in a thread's workspace, in numbers of T.
  struct Places {
    std::int64_t x = 0, dx = 0;  // (tile, ld) at the boundary in front of the layer
    std::int64_t basis = 0, slope = 0, base = 0, base_slope = 0, interval = 0, stride = 0;
  };

  void lay_out_workspace() {
    std::int64_t at = 0;
    const auto take = [&at](std::int64_t count) {
      const std::int64_t here = at;
      at += (count + kSlack + 15) / 16 * 16;
      return here;
    };
    int most_intervals = 0;
    const int layers = int(plan_.layers.size());
    for (int l = 0; l <= layers; ++l) {
      const LayerPlan& p = plan_.layers[std::min(l, layers - 1)];
      const std::int64_t run = std::int64_t(kTile) * (l < layers ? p.ld_in : p.ld_out);
      Places here;
      here.x = take(run);
      here.dx = take(run);
      if (l < layers) {
        here.stride = (run + kSlack + 15) / 16 * 16;
        here.basis = take((p.order + 1) * here.stride);
        here.slope = take((p.order + 1) * here.stride);
        here.base = take(run);
        here.base_slope = take(run);
        here.interval = take(run);
        most_intervals = std::max(most_intervals, p.intervals);
      }
      places_.push_back(here);
    }
    samples_in_ = take(most_intervals * std::int64_t(8 / sizeof(T)));
    workspace_size_ = at;
  }

  Weights<T> weights(T* space, int l) const {
    const Places& at = places_[l];
    return {space + at.basis,
            space + at.slope,
            space + at.base,
            space + at.base_slope,
            reinterpret_cast<Integer<T>*>(space + at.interval),
            at.stride};
  }

  static std::int64_t row_of(const Batch<T>& batch, std::int64_t position) {
    return batch.order.extent(0) > 0 ? std::int64_t(batch.order(position)) : position;
  }

  void gather(const Batch<T>& batch, std::int64_t first, int samples, T* x) const {
    const int in = plan_.layers[0].in, ld = plan_.layers[0].ld_in;
    const T* all = batch.inputs.data();
    for (int s = 0; s < samples; ++s) {
      const T* from = all + row_of(batch, first + s) * in;
      for (int i = 0; i < in; ++i) x[std::int64_t(s) * ld + i] = from[i];
    }
  }

  // Rows of the next tile, while this one is computed.
  void prefetch(const Batch<T>& batch, std::int64_t first, std::int64_t last) const {
    constexpr int line = 64 / int(sizeof(T));
    const int in = plan_.layers[0].in, columns = int(batch.targets.extent(1));
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t row = row_of(batch, k);
      for (int i = 0; i < in; i += line)
        __builtin_prefetch(batch.inputs.data() + row * in + i);
      if (columns > 0) __builtin_prefetch(batch.targets.data() + row * columns);
    }
  }

  // The sum of leaves along the tree, into `sum`; level: of the partial sums that are
  // free.
  void run_leaves(const Task& task, int first, int count, int slot, int level,
                  T* sum) const {
    if (count == 1) return run_leaf(task, first, &workspace_(slot, 0), sum);
    T* const second = sum ? &partial_(slot * levels_ + level, 0) : nullptr;
    run_leaves(task, first, count / 2, slot, level + 1, sum);
    run_leaves(task, first + count / 2, count / 2, slot, level + 1, second);
    if (sum == nullptr) return;
    KAN_INDEPENDENT
    for (std::int64_t k = 0; k < plan_.table_size; ++k) sum[k] += second[k];
  }

  void run_leaf(const Task& task, int leaf, T* space, T* gradient) const {
    const Batch<T>& batch = task.batch;
    const int layers = int(plan_.layers.size());
    const LayerPlan& last = plan_.layers.back();
    const std::int64_t begin = leaf_begin(leaf, batch.size, batch.leaves);
    const std::int64_t end = leaf_begin(leaf + 1, batch.size, batch.leaves);
    const int columns = int(batch.targets.extent(1));
    const bool with_inputs = task.input_gradient.extent(0) > 0;
    if (gradient && begin == end) std::fill_n(gradient, plan_.table_size, T(0));
    double loss = 0;
    std::int64_t right = 0;
    for (int l = 0; l < layers; ++l) this->leaf_outside_(leaf, l) = 0;

    for (std::int64_t r = begin; r < end; r += kTile) {
      const int samples = int(std::min<std::int64_t>(kTile, end - r));
      gather(batch, batch.begin + r, samples, space + places_[0].x);
      prefetch(batch, batch.begin + r + samples,
               batch.begin + std::min<std::int64_t>(r + samples + kTile, end));
      for (int l = 0; l < layers; ++l) {
        const LayerPlan& p = plan_.layers[l];
        const T* x = space + places_[l].x;
        this->leaf_outside_(leaf, l) += count_outside(p, knots_.data(), x, samples);
        kernels_[l].forward(p, knots_.data(), table_.data(), x, samples,
                            task.with_gradient && (l > 0 || with_inputs),
                            weights(space, l), space + places_[l + 1].x);
      }
      const T* y = space + places_[layers].x;
      T* dy = space + places_[layers].dx;
      if (task.prediction.extent(0) > 0)
        for (int s = 0; s < samples; ++s)
          for (int o = 0; o < last.out; ++o)
            task.prediction(r + s, o) = y[std::int64_t(s) * last.ld_out + o];
      if (columns == 0) continue;
      for (int s = 0; s < samples; ++s) {
        const std::int64_t row = row_of(batch, batch.begin + r + s);
        int correct = 0;
        loss += loss_row(task.loss, y + std::int64_t(s) * last.ld_out,
                         batch.targets.data() + row * columns, last.out,
                         dy + std::int64_t(s) * last.ld_out, correct);
        right += correct;
      }
      if (!gradient) continue;
      auto* samples_in = reinterpret_cast<std::uint64_t*>(space + samples_in_);
      for (int l = layers - 1; l >= 0; --l)
        kernels_[l].backward(plan_.layers[l], table_.data(), weights(space, l), samples,
                             space + places_[l + 1].dx, r > begin, gradient,
                             l > 0 || with_inputs ? space + places_[l].dx : nullptr,
                             samples_in);
      const LayerPlan& first = plan_.layers[0];
      if (with_inputs)
        for (int s = 0; s < samples; ++s)
          for (int i = 0; i < first.in; ++i)
            task.input_gradient(r + s, i) = space[places_[0].dx + s * first.ld_in + i];
    }
    this->leaf_loss_(leaf) = loss;
    this->leaf_correct_(leaf) = right;
  }

  std::int64_t threads_, workspace_size_ = 0, samples_in_ = 0;
  std::vector<Places> places_;
  std::vector<LayerKernels<T>> kernels_;
  std::vector<Item> items_;
  View2<T> workspace_;
  int levels_ = 0;
  View2<T> partial_;  ///< (thread and level, table)
};

}  // namespace

template <class T>
std::unique_ptr<Engine<T>> make_host_engine(const Exec& exec, const Network<T>& network) {
  return std::make_unique<HostEngine<T>>(exec, network);
}

template std::unique_ptr<Engine<float>> make_host_engine(const Exec&,
                                                         const Network<float>&);
template std::unique_ptr<Engine<double>> make_host_engine(const Exec&,
                                                          const Network<double>&);

}  // namespace kan
