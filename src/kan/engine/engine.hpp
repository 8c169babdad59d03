// An engine computes: loss, gradient and outputs of a network on rows of a data set. Two
// forms of the tile engine exist (a tile of samples goes through all layers forward, the
// loss, and all layers backward while its activations stay near): `host` with vectors,
// one thread a leaf, and `team` as a GPU runs it, one team a leaf; it runs on any
// backend.
//
// Gradients are summed in leaves: leaf s of a batch of b rows and V leaves is the rows
// [floor(s b/V), floor((s+1) b/V)), added up by one thread or team in a fixed order;
// leaves are added by one fixed binary tree. So the bits depend on V, not on threads.
// A block is a subtree of it that one thread adds up leaf by leaf, while the sums of few
// leaves are in its cache.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kan/engine/plan.hpp"
#include "kan/loss.hpp"
#include "kan/types.hpp"

namespace kan {

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

  /// "tile/host" or "tile/team".
  virtual std::string name() const = 0;
  /// Bytes of one vector of the form in use; 0 for scalars.
  virtual int vector_bytes() const = 0;

  /// Table of effective coefficients; call after every change of the parameters.
  virtual void form(const Exec& exec, const View1<const T>& parameters) = 0;

  /// Loss and gradients of leaves [first_leaf, last_leaf) of the batch; unless
  /// empty, input_gradient (position in the batch, in) gets the derivative of each row's
  /// loss with respect to its scaled inputs.
  void gradient(const Exec& exec, const Batch<T>& batch, LossKind loss,
                const View2<T>& input_gradient = {});
  /// Adds leaves [first, first + count) of the last gradient(), one of the maximal
  /// aligned subtrees of its leaves (partition.hpp), along the fixed tree; destroys the
  /// sums.
  View1<T> add(const Exec& exec, int first, int count);
  /// Flat gradient (unscaled sum over rows) from the sum of all leaves.
  virtual void finish(const Exec& exec, const View1<const T>& parameters,
                      const View1<const T>& root, const View1<T>& gradient) = 0;
  /// Loss sums, and predictions (position in the batch, out) unless the view is empty.
  void evaluate(const Exec& exec, const Batch<T>& batch, LossKind loss,
                const View2<T>& prediction);
  /// Sums of the last gradient() or evaluate(): fences.
  BatchSums sums(const Exec& exec) const;
  /// The same for kernels, which may change the losses. Does not fence.
  LeafSums leaf_sums() const {
    return {leaf_loss_.data(), leaf_correct_.data(), leaf_outside_.data(), first_, last_};
  }
  /// Loss sum of leaves [first, first + count) along the same tree: after sums().
  double loss(int first, int count) const;

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
  virtual void run(const Exec& exec, const Task& task) = 0;
  /// Leaves of a block, a power of two; the same for the life of the engine.
  virtual int block_leaves(int leaves) const = 0;
  void launch(const Exec& exec, const Task& task);
  void cut_blocks(const Batch<T>& batch);

  Plan<T> plan_;
  View1<T> knots_, table_;
  /// Leaves first, ..., first + count - 1.
  struct Block {
    int first, count;
  };
  std::vector<Block> blocks_;  ///< of the leaves computed, in order
  View2<T> block_gradient_;    ///< (block, table)
  View1<double> leaf_loss_;
  View1<std::int64_t> leaf_correct_;
  View2<std::int64_t> leaf_outside_;  ///< (leaf, layer)
  int leaves_ = 0, first_ = 0, last_ = 0;
  mutable std::vector<double> host_loss_;  ///< of the leaves, after sums()
};

/// The form asked for; automatic: host vectors where the default execution space is the
/// host, else team. Error usage where the form cannot run here.
template <class T>
std::unique_ptr<Engine<T>> make_engine(const Exec& exec, const Network<T>& network,
                                       Kernels kernels);

/// Bounds of leaf s of b rows in V leaves.
KOKKOS_INLINE_FUNCTION std::int64_t leaf_begin(std::int64_t s, std::int64_t b,
                                               std::int64_t v) {
  return s * b / v;
}

}  // namespace kan
