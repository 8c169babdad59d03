// An engine computes: loss, gradient and outputs of a network on rows of a data set. In
// the tile engine a tile of samples goes through all layers forward, the loss, and all
// layers backward while its activations stay near. It has two forms: `host` with vectors,
// one thread a leaf, and `team` as a GPU runs it, one team a tile and then one a block of
// coefficients in a leaf, on any backend. In the layer engine, which has a host form,
// many samples go through one layer after another.
//
// Gradients are summed in leaves: leaf s of a batch of b rows and V leaves is the rows
// [floor(s b/V), floor((s+1) b/V)), added up in a fixed order, a number by one thread;
// leaves are added by one fixed binary tree. So the bits depend on V, not on threads.
// A block is a subtree of it that one thread adds up leaf by leaf, while the sums of few
// leaves are in its cache.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "kan/engine/plan.hpp"
#include "kan/loss.hpp"
#include "kan/queue.hpp"
#include "kan/types.hpp"
#include "parallel/partition.hpp"

namespace kan {

/// Where the rows of a batch are; plain data for kernels.
template <class T>
struct Rows {
  const T *inputs = nullptr, *targets = nullptr;
  const std::uint32_t* order = nullptr;  ///< null: the row is the position
  std::int64_t begin = 0;
  /// Row of the set that is row k of the batch.
  KOKKOS_FUNCTION std::int64_t row(std::int64_t k) const {
    return order != nullptr ? std::int64_t(order[begin + k]) : begin + k;
  }
};

/// Rows of one update or evaluation.
template <class T>
struct Batch {
  View2<const T> inputs;              ///< (rows of the set, in), scaled
  View2<const T> targets;             ///< (rows of the set, target columns); may be empty
  View1<const std::uint32_t> order;   ///< position -> row; empty: the row is the position
  std::int64_t begin = 0;             ///< position of the first row
  std::int64_t size = 0;              ///< rows
  int leaves = 1;                     ///< V
  int first_leaf = 0, last_leaf = 1;  ///< those computed here
  /// Unless null, kernels find here, when they run, what rows() says.
  const Rows<T>* stored = nullptr;
  Rows<T> rows() const {
    return {inputs.data(), targets.data(), order.extent(0) > 0 ? order.data() : nullptr,
            begin};
  }
};

/// Sums over the rows computed; not divided by anything.
struct BatchSums {
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<std::int64_t> outside;  ///< per layer: inputs outside [lo, hi]
};

/// Sums of leaves [first, last) where kernels run; outside: (leaf, layer).
struct LeafSums {
  double* loss;
  const std::int64_t *correct, *outside;
  int first, last;
};

template <class T>
class Engine {
 public:
  virtual ~Engine() = default;

  /// "tile/host", "tile/team" or "layer/host".
  virtual std::string name() const = 0;
  /// Bytes of one vector of the form in use; 0 for scalars.
  virtual int vector_bytes() const = 0;

  /// Table of effective coefficients; call after every change of the parameters.
  virtual void form(const Queue& queue, const View1<const T>& parameters) = 0;

  /// Loss and gradients of leaves [first_leaf, last_leaf) of the batch; unless
  /// empty, input_gradient (position in the batch, in) gets the derivative of each row's
  /// loss with respect to its scaled inputs.
  void gradient(const Queue& queue, const Batch<T>& batch, LossKind loss,
                const View2<T>& input_gradient = {});
  /// Adds leaves [first, first + count) of the last gradient(), one of the maximal
  /// aligned subtrees of its leaves (partition.hpp), along the fixed tree; destroys the
  /// sums.
  View1<T> add(const Queue& queue, int first, int count);
  /// Flat gradient (unscaled sum over rows) from the sum of all leaves.
  virtual void finish(const Queue& queue, const View1<const T>& parameters,
                      const View1<const T>& root, const View1<T>& gradient) = 0;
  /// Loss sums, and predictions (position in the batch, out) unless the view is empty.
  void evaluate(const Queue& queue, const Batch<T>& batch, LossKind loss,
                const View2<T>& prediction);
  /// Sums of the last gradient() or evaluate(), good until the next call: fences.
  const BatchSums& sums(const Exec& exec);
  /// The same for kernels, which may change the losses. Does not fence.
  LeafSums leaf_sums() const {
    return {leaf_loss_.data(), leaf_correct_.data(), leaf_outside_.data(), cut_->first,
            cut_->last};
  }
  /// Loss sum of leaves [first, first + count) along the same tree: after sums().
  double loss(int first, int count);
  /// Another number where sums have moved, which recorded kernels point at.
  int moves() const { return moves_; }
  /// Whether the kernels of such a batch can be recorded.
  virtual bool recordable(const Batch<T>&) const { return true; }

  const Plan<T>& plan() const { return plan_; }
  /// Bytes held besides leaf sums, for `threads` threads (or teams).
  virtual std::int64_t workspace_bytes() const = 0;

 protected:
  explicit Engine(Plan<T> plan);

  /// What a launch computes and where its leaves put it.
  struct Task {
    Batch<T> batch;
    LossKind loss;
    bool with_gradient;
    View2<T> prediction, input_gradient;
  };
  virtual void run(const Queue& queue, const Task& task) = 0;
  /// Leaves of a block, a power of two; the same for the life of the engine.
  virtual int block_leaves(int leaves) const = 0;
  void launch(const Queue& queue, const Task& task);
  void cut_blocks(const Batch<T>& batch);
  void make_room(bool with_gradient);

  Plan<T> plan_;
  View1<T> knots_, table_;
  /// Leaves first, ..., first + count - 1.
  struct Block {
    int first, count;
  };
  /// Leaves [first, last) of `leaves`, in blocks and in the subtrees that they make up.
  struct Cut {
    int leaves, first, last;
    std::vector<Block> blocks;
    std::vector<parallel::Subtree> subtrees;
  };
  std::list<Cut> cuts_;       ///< they stay: recorded kernels point at blocks
  const Cut* cut_ = nullptr;  ///< of the last launch
  View2<T> block_gradient_;   ///< (block, table)
  View1<double> leaf_loss_;
  View1<std::int64_t> leaf_correct_;
  View2<std::int64_t> leaf_outside_;  ///< (leaf, layer)
  int moves_ = 0;

 private:
  // Copies of the sums of leaves; the same memory where kernels run on the host.
  HostView1<double> host_loss_;
  HostView1<std::int64_t> host_correct_;
  HostView2<std::int64_t> host_outside_;
  BatchSums sums_;
  std::vector<double> tree_;  ///< room for the losses of leaves
};

/// The form asked for; automatic: host vectors where the default execution space is the
/// host, else team; tile unless layer is asked for, which has a host form only. Error
/// usage where that cannot run here.
template <class T>
std::unique_ptr<Engine<T>> make_engine(const Exec& exec, const Network<T>& network,
                                       Kernels kernels,
                                       EngineKind kind = EngineKind::automatic);

/// Bounds of leaf s of b rows in V leaves.
KOKKOS_INLINE_FUNCTION std::int64_t leaf_begin(std::int64_t s, std::int64_t b,
                                               std::int64_t v) {
  return s * b / v;
}

}  // namespace kan
