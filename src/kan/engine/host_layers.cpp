// Layer-wise engine of the host form, for layers whose coefficients do not fit a cache:
// hundreds of rows go through one layer before the next, so that a coefficient that is
// fetched serves them all instead of a tile of 64, and all threads work on one leaf, so
// that there is one gradient table and not one a thread.
//
// Inputs go in blocks whose coefficients fit L2. Forward, a thread owns rows; backward,
// it owns blocks of inputs: their coefficient gradients and their columns of dx. Only
// activations are kept between the two: basis values are made for a tile and a block
// where they are used, which is cheap against many outputs.
#include "kan/engine/host_engine.hpp"
#include "kan/engine/host_form.hpp"
#include "parallel/partition.hpp"

namespace kan {
namespace {

constexpr int kRowsOfThread = 512;
constexpr std::int64_t kBlockBytes = 512 << 10;

template <class T>
class LayerEngine final : public HostForm<T> {
 public:
  LayerEngine(const Exec& exec, const Network<T>& network)
      : HostForm<T>(exec, network), rows_(kRowsOfThread * threads_) {
    constexpr int lanes = kLanes<T>;
    int most_inputs = 0, most_intervals = 0, most_order = 0;
    for (const LayerPlan& p : plan_.layers) {
      const std::int64_t input_bytes = std::int64_t(p.intervals) * int(sizeof(T)) *
                                       (p.narrow ? row_room(p.order) : p.ld_out);
      const int fit = int(kBlockBytes / input_bytes / lanes * lanes);
      const int inputs = std::clamp(fit, lanes, (p.ld_in + lanes - 1) / lanes * lanes);
      std::vector<LayerPlan> blocks;
      for (int i = 0; i < p.in; i += inputs)
        blocks.push_back(plan_of_inputs(p, i, inputs));
      inputs_.push_back(inputs);
      layer_blocks_.push_back(blocks);
      x_.push_back(View2<T>("kan::LayerEngine::x", rows_, p.ld_in));
      dx_.push_back(View2<T>("kan::LayerEngine::dx", rows_, p.ld_in));
      most_inputs = std::max(most_inputs, inputs);
      most_intervals = std::max(most_intervals, p.intervals);
      most_order = std::max(most_order, p.order);
    }
    const int ld = plan_.layers.back().ld_out;
    x_.push_back(View2<T>("kan::LayerEngine::y", rows_, ld));
    dx_.push_back(View2<T>("kan::LayerEngine::dy", rows_, ld));
    run_ = (std::int64_t(kTile) * most_inputs + kHostSlack + 15) / 16 * 16;
    order_ = most_order;
    // x and dx of the block, the arrays of Weights, y that is not wanted, sample bits.
    const std::int64_t unwanted = std::int64_t(kTile) * lanes + kHostSlack;
    space_ = View2<T>("kan::LayerEngine::space", threads_,
                      (2 * most_order + 7) * run_ + unwanted +
                          most_intervals * std::int64_t(8 / sizeof(T)) + 16);
    tile_loss_.resize(rows_ / kTile);
    tile_right_.resize(rows_ / kTile);
  }

  std::string name() const override { return "layer/host"; }
  std::int64_t workspace_bytes() const override {
    std::int64_t numbers = plan_.table_size + std::int64_t(space_.size());
    for (const View2<T>& view : x_) numbers += 2 * std::int64_t(view.size());
    return numbers * std::int64_t(sizeof(T));
  }

 protected:
  using HostForm<T>::plan_;
  using HostForm<T>::knots_;
  using HostForm<T>::table_;
  using HostForm<T>::kernels_;
  using HostForm<T>::threads_;
  using Task = typename Engine<T>::Task;
  using Block = typename Engine<T>::Block;

  // Leaves one after another, all along the tree.
  int block_leaves(int leaves) const override { return leaves; }

  // The host decides between kernels.
  bool recordable(const Batch<T>&) const override { return false; }

  void run(const Queue& queue, const Task& task) override {
    const std::vector<Block>& blocks = this->cut_->blocks;
    now_ = task.batch.stored != nullptr ? *task.batch.stored : task.batch.rows();
    std::size_t levels = 0;
    for (const Block& b : blocks)
      while (1 << levels < b.count) ++levels;
    while (task.with_gradient && partial_.size() < levels)
      partial_.push_back(View1<T>("kan::LayerEngine::partial", plan_.table_size));
    for (std::size_t b = 0; b < blocks.size(); ++b)
      run_leaves(queue.exec(), task, blocks[b].first, blocks[b].count, 0,
                 task.with_gradient ? &this->block_gradient_(b, 0) : nullptr);
  }

 private:
  using Token =
      Kokkos::Experimental::UniqueToken<Exec,
                                        Kokkos::Experimental::UniqueTokenScope::Global>;

  template <class Call>
  void in_parallel(const Exec& exec, const char* name, std::int64_t count,
                   const Call& call) const {
    const Token token(exec);
    const Call* todo = &call;
    const View2<T> space = space_;
    Kokkos::parallel_for(label(name), Kokkos::RangePolicy<Exec>(exec, 0, count),
                         [=](std::int64_t k) {
                           const int slot = token.acquire();
                           (*todo)(k, &space(slot, 0));
                           token.release(slot);
                         });
    exec.fence(label(name));
  }

  // The sum of leaves along the tree, into `sum`.
  void run_leaves(const Exec& exec, const Task& task, int first, int count, int level,
                  T* sum) {
    if (count == 1) return run_leaf(exec, task, first, sum);
    T* const second = sum ? partial_[level].data() : nullptr;
    run_leaves(exec, task, first, count / 2, level + 1, sum);
    run_leaves(exec, task, first + count / 2, count / 2, level + 1, second);
    if (sum == nullptr) return;
    constexpr std::int64_t chunk = 1 << 14;
    const std::int64_t size = plan_.table_size;
    in_parallel(exec, "kan::LayerEngine::add", (size + chunk - 1) / chunk,
                [=](std::int64_t k, T*) {
                  const std::int64_t end = std::min(size, (k + 1) * chunk);
                  KAN_INDEPENDENT
                  for (std::int64_t j = k * chunk; j < end; ++j) sum[j] += second[j];
                });
  }

  void run_leaf(const Exec& exec, const Task& task, int leaf, T* gradient) {
    const Batch<T>& batch = task.batch;
    const std::int64_t begin = leaf_begin(leaf, batch.size, batch.leaves);
    const std::int64_t end = leaf_begin(leaf + 1, batch.size, batch.leaves);
    const bool with_inputs = task.input_gradient.extent(0) > 0;
    const int layers = int(plan_.layers.size());
    if (gradient && begin == end) std::fill_n(gradient, plan_.table_size, T(0));
    for (int l = 0; l < layers; ++l) this->leaf_outside_(leaf, l) = 0;
    double loss = 0;
    std::int64_t right = 0;
    for (std::int64_t r = begin; r < end; r += rows_) {
      const std::int64_t rows = std::min(rows_, end - r);
      const std::int64_t tiles = (rows + kTile - 1) / kTile;
      const std::int64_t parts = std::min(threads_, tiles);
      in_parallel(exec, "kan::LayerEngine::forward", parts,
                  [&](std::int64_t k, T* space) {
                    forward(task, leaf, r, rows, parallel::share(tiles, parts, k), space);
                  });
      for (std::int64_t t = 0; t < tiles && batch.targets.extent(1) > 0; ++t) {
        loss += tile_loss_[t];
        right += tile_right_[t];
      }
      if (!gradient) continue;
      for (int l = layers - 1; l >= 0; --l)
        in_parallel(exec, "kan::LayerEngine::backward", layer_blocks_[l].size(),
                    [&](std::int64_t b, T* space) {
                      backward(l, int(b), rows, r > begin, gradient, l > 0 || with_inputs,
                               space);
                    });
      for (std::int64_t s = 0; with_inputs && s < rows; ++s)
        for (int i = 0; i < plan_.layers[0].in; ++i)
          task.input_gradient(r + s, i) = dx_[0](s, i);
    }
    this->leaf_loss_(leaf) = loss;
    this->leaf_correct_(leaf) = right;
  }

  Weights<T> weights(T* space) const {
    T* at = space + 2 * run_;
    const auto take = [&](int arrays) {
      T* const here = at;
      at += arrays * run_;
      return here;
    };
    Weights<T> w;
    w.stride = run_;
    w.basis = take(order_ + 1);
    w.slope = take(order_ + 1);
    w.base = take(1);
    w.base_slope = take(1);
    w.interval = reinterpret_cast<Integer<T>*>(take(1));
    return w;
  }

  // Weights of a block of inputs for a tile of rows that starts at row s.
  Weights<T> weigh(int l, int b, std::int64_t s, int samples, bool with_slopes,
                   T* space) const {
    const LayerPlan& p = layer_blocks_[l][b];
    const int ld = plan_.layers[l].ld_in;
    const T* from = &x_[l](s, 0) + b * inputs_[l];
    for (int k = 0; k < samples; ++k)
      std::copy_n(from + std::int64_t(k) * ld, p.ld_in,
                  space + std::int64_t(k) * p.ld_in);
    const Weights<T> w = weights(space);
    kernels_[l].weights(p, knots_.data(), space, samples, with_slopes, w);
    return w;
  }

  void forward(const Task& task, int leaf, std::int64_t r, std::int64_t rows,
               const parallel::Range& tiles, T* space) {
    const int layers = int(plan_.layers.size()), out = plan_.layers.back().out;
    const auto samples_of = [=](std::int64_t t) {
      return int(std::min<std::int64_t>(kTile, rows - t * kTile));
    };
    for (std::int64_t t = tiles.begin; t < tiles.end; ++t)
      this->gather(now_, r + t * kTile, samples_of(t), &x_[0](t * kTile, 0));
    for (int l = 0; l < layers; ++l) {
      std::int64_t outside = 0;
      for (std::int64_t t = tiles.begin; t < tiles.end; ++t)
        outside += count_outside(plan_.layers[l], knots_.data(), &x_[l](t * kTile, 0),
                                 samples_of(t));
      Kokkos::atomic_add(&this->leaf_outside_(leaf, l), outside);
      for (int b = 0; b < int(layer_blocks_[l].size()); ++b)
        for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
          const Weights<T> w = weigh(l, b, t * kTile, samples_of(t), false, space);
          kernels_[l].forward(layer_blocks_[l][b], table_.data(), w, samples_of(t), b > 0,
                              &x_[l + 1](t * kTile, 0));
        }
    }
    for (std::int64_t t = tiles.begin; t < tiles.end; ++t) {
      const T* y = &x_[layers](t * kTile, 0);
      const int ld = plan_.layers.back().ld_out;
      if (task.prediction.extent(0) > 0)
        for (int s = 0; s < samples_of(t); ++s)
          for (int o = 0; o < out; ++o)
            task.prediction(r + t * kTile + s, o) = y[std::int64_t(s) * ld + o];
      tile_loss_[t] = 0;
      tile_right_[t] = 0;
      const int columns = int(task.batch.targets.extent(1));
      if (columns > 0)
        this->losses(now_, columns, task.loss, r + t * kTile, samples_of(t), y,
                     &dx_[layers](t * kTile, 0), tile_loss_[t], tile_right_[t]);
    }
  }

  void backward(int l, int b, std::int64_t rows, bool add, T* gradient, bool with_dx,
                T* space) const {
    const LayerPlan& p = layer_blocks_[l][b];
    const int ld = plan_.layers[l].ld_in;
    T* const dx = space + run_;
    T* const unwanted = space + (2 * order_ + 7) * run_;
    auto* samples_in = reinterpret_cast<std::uint64_t*>(
        unwanted + std::int64_t(kTile) * kLanes<T> + kHostSlack);
    for (std::int64_t s = 0; s < rows; s += kTile) {
      const int samples = int(std::min<std::int64_t>(kTile, rows - s));
      const Weights<T> w = weigh(l, b, s, samples, with_dx, space);
      if (p.narrow) kernels_[l].forward(p, table_.data(), w, samples, false, unwanted);
      kernels_[l].backward(p, table_.data(), w, samples, &dx_[l + 1](s, 0), add || s > 0,
                           gradient, with_dx ? dx : nullptr, samples_in);
      if (!with_dx) continue;
      T* const to = &dx_[l](s, 0) + b * inputs_[l];
      for (int k = 0; k < samples; ++k)
        std::copy_n(dx + std::int64_t(k) * p.ld_in, p.in, to + std::int64_t(k) * ld);
    }
  }

  Rows<T> now_;                  ///< of the batch
  std::int64_t rows_, run_ = 0;  ///< of a pass; numbers of an array for a tile
  int order_ = 0;
  std::vector<int> inputs_;  ///< of a block, per layer
  std::vector<std::vector<LayerPlan>> layer_blocks_;
  std::vector<View2<T>> x_, dx_;  ///< (rows, ld) at each boundary
  View2<T> space_;                ///< (thread, ...)
  std::vector<View1<T>> partial_;
  std::vector<double> tile_loss_;
  std::vector<std::int64_t> tile_right_;
};

}  // namespace

template <class T>
std::unique_ptr<Engine<T>> make_layer_engine(const Exec& exec,
                                             const Network<T>& network) {
  return std::make_unique<LayerEngine<T>>(exec, network);
}

template std::unique_ptr<Engine<float>> make_layer_engine(const Exec&,
                                                          const Network<float>&);
template std::unique_ptr<Engine<double>> make_layer_engine(const Exec&,
                                                           const Network<double>&);

}  // namespace kan
