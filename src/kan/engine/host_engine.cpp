// Each thread has a workspace for one tile: activations and their gradients at every
// layer boundary, and what each layer's forward pass leaves for its backward pass
// (Weights). The workspace is zero at first and places that pad a row are never written
// with anything but zero, so padded lanes contribute nothing.
#include "kan/engine/host_engine.hpp"

#include <algorithm>

#include "kan/engine/host_form.hpp"

namespace kan {

namespace {

template <class T>
class HostEngine final : public HostForm<T> {
 public:
  HostEngine(const Exec& exec, const Network<T>& network) : HostForm<T>(exec, network) {
    lay_out_workspace();
    workspace_ = View2<T>("kan::HostEngine::workspace", threads_, workspace_size_);
  }

  std::string name() const override { return "tile/host"; }
  std::int64_t workspace_bytes() const override {
    return (threads_ * workspace_size_ + plan_.table_size) * std::int64_t(sizeof(T));
  }

 protected:
  using HostForm<T>::plan_;
  using HostForm<T>::knots_;
  using HostForm<T>::table_;
  using HostForm<T>::kernels_;
  using HostForm<T>::threads_;
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

  void run(const Queue& queue, const Task& task) override {
    const std::vector<Block>& blocks = this->cut_->blocks;
    int levels = 0;
    for (const Block& b : blocks)
      while (1 << levels < b.count) ++levels;
    if (task.with_gradient && levels > levels_) {
      levels_ = levels;
      partial_ =
          View2<T>("kan::HostEngine::partial", threads_ * levels_, plan_.table_size);
    }
    queue.for_each(
        "kan::HostEngine::leaves", std::int64_t(blocks.size()),
        Leaves{this, Token(queue.exec()), task, task.batch.rows(), blocks.data()});
  }

 private:
  using Token =
      Kokkos::Experimental::UniqueToken<Exec,
                                        Kokkos::Experimental::UniqueTokenScope::Global>;
  struct Leaves {
    const HostEngine* self;
    Token token;
    Task task;
    Rows<T> now;
    const Block* blocks;
    void operator()(std::int64_t b) const {
      const int slot = token.acquire();
      const Rows<T>& rows = task.batch.stored != nullptr ? *task.batch.stored : now;
      T* sum = task.with_gradient ? &self->block_gradient_(b, 0) : nullptr;
      self->run_leaves(task, rows, blocks[b].first, blocks[b].count, slot, 0, sum);
      token.release(slot);
    }
  };

  // Offsets in a thread's workspace, in numbers of T.
  struct Places {
    std::int64_t x = 0, dx = 0;  // (tile, ld) at the boundary in front of the layer
    std::int64_t basis = 0, slope = 0, base = 0, base_slope = 0, interval = 0, stride = 0;
  };

  void lay_out_workspace() {
    std::int64_t at = 0;
    const auto take = [&at](std::int64_t count) {
      const std::int64_t here = at;
      at += (count + kHostSlack + 15) / 16 * 16;
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
        here.stride = (run + kHostSlack + 15) / 16 * 16;
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

  // Rows of the next tile, while this one is computed.
  void prefetch(const Rows<T>& rows, int columns, std::int64_t first,
                std::int64_t last) const {
    constexpr int line = 64 / int(sizeof(T));
    const int in = plan_.layers[0].in;
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t row = rows.row(k);
      for (int i = 0; i < in; i += line) __builtin_prefetch(rows.inputs + row * in + i);
      if (columns > 0) __builtin_prefetch(rows.targets + row * columns);
    }
  }

  // The sum of leaves along the tree, into `sum`; level: of the partial sums that are
  // free.
  void run_leaves(const Task& task, const Rows<T>& rows, int first, int count, int slot,
                  int level, T* sum) const {
    if (count == 1) return run_leaf(task, rows, first, &workspace_(slot, 0), sum);
    T* const second = sum ? &partial_(slot * levels_ + level, 0) : nullptr;
    run_leaves(task, rows, first, count / 2, slot, level + 1, sum);
    run_leaves(task, rows, first + count / 2, count / 2, slot, level + 1, second);
    if (sum == nullptr) return;
    KAN_INDEPENDENT
    for (std::int64_t k = 0; k < plan_.table_size; ++k) sum[k] += second[k];
  }

  void run_leaf(const Task& task, const Rows<T>& rows, int leaf, T* space,
                T* gradient) const {
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
      this->gather(rows, r, samples, space + places_[0].x);
      prefetch(rows, columns, r + samples,
               std::min<std::int64_t>(r + samples + kTile, end));
      for (int l = 0; l < layers; ++l) {
        const LayerPlan& p = plan_.layers[l];
        const T* x = space + places_[l].x;
        this->leaf_outside_(leaf, l) += count_outside(p, knots_.data(), x, samples);
        kernels_[l].weights(p, knots_.data(), x, samples,
                            task.with_gradient && (l > 0 || with_inputs),
                            weights(space, l));
        kernels_[l].forward(p, table_.data(), weights(space, l), samples, false,
                            space + places_[l + 1].x);
      }
      const T* y = space + places_[layers].x;
      T* dy = space + places_[layers].dx;
      if (task.prediction.extent(0) > 0)
        for (int s = 0; s < samples; ++s)
          for (int o = 0; o < last.out; ++o)
            task.prediction(r + s, o) = y[std::int64_t(s) * last.ld_out + o];
      if (columns == 0) continue;
      this->losses(rows, columns, task.loss, r, samples, y, dy, loss, right);
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

  std::int64_t workspace_size_ = 0, samples_in_ = 0;
  std::vector<Places> places_;
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
