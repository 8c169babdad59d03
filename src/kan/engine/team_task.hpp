// What both stages of the team form are given, by value: pointers into Views and sizes.
// team_tile.hpp is stage 1, team_gradient.hpp stage 2.
//
// Rows are taken in chunks: leaves [first_leaf, first_leaf + leaves), and of each leaf
// the rows [part_begin, part_begin + part_rows), so that what stage 1 leaves for stage 2
// has a bounded buffer. A chunk of several leaves has all rows of each; a part is whole
// tiles. Buffer: for every layer x (rows, in), then for every layer dy (rows, out); rows
// are those of the chunk in order.
#pragma once

#include "kan/engine/engine.hpp"
#include "kan/engine/point.hpp"

namespace kan {

inline constexpr int kTeamThreads = 128;  // of a team on a device
inline constexpr int kTeamSize = kHostExecution ? 1 : kTeamThreads;

// Teams that a multiprocessor holds at least, by registers: with 128 and 168 for a thread
// nothing spills, in kernels of any order.
template <class T>
inline constexpr int kTeamsHeld = sizeof(T) == 4 ? 4 : 3;

/// Stage 2 cuts the edges of a layer into blocks of inputs x outputs, one a team.
struct TeamCut {
  int inputs = 1, outputs = 1;  ///< of a block
  int input_blocks = 1, output_blocks = 1;
  int first_team = 0;          ///< of the teams of a leaf
  int samples = 1;             ///< whose basis is in scratch at a time
  std::int64_t x = 0, dy = 0;  ///< in the buffer, in numbers a row
};

template <class T>
struct TeamTask {
  const LayerPlan* plans;  ///< device array, as the next
  const TeamCut* cuts;
  int layers;
  const T *knots, *table;
  Rows<T> now;            ///< of the batch,
  const Rows<T>* stored;  ///< unless they are here when the kernel runs
  std::int64_t size, table_size;
  int columns;  ///< of the targets
  LossKind loss;
  bool with_gradient;

  int leaves_of_batch;     ///< V
  int first_leaf, leaves;  ///< of the chunk
  std::int64_t part_begin, part_rows;
  int tile, tiles;        ///< rows of a tile; tiles of a leaf in this chunk
  int block, widest;      ///< inputs of a block of stage 1; largest output of a layer
  int activations_level;  ///< of scratch
  int teams;              ///< of stage 2, a leaf
  T* buffer;
  std::int64_t buffer_rows;

  int first_gradient;  ///< leaf whose table is the first of leaf_gradient
  T *leaf_gradient, *prediction, *input_gradient;
  double *leaf_loss, *tile_loss;
  std::int64_t *leaf_correct, *leaf_outside;
  int* tile_counts;  ///< (tile, right answers and, per layer, inputs outside)

  KOKKOS_FUNCTION Rows<T> rows() const { return stored != nullptr ? *stored : now; }
  /// Positions of the rows of a leaf that belong to the chunk.
  KOKKOS_FUNCTION std::int64_t first_row(int leaf) const {
    return leaf_begin(leaf, size, leaves_of_batch) + part_begin;
  }
  KOKKOS_FUNCTION std::int64_t last_row(int leaf) const {
    const std::int64_t end = leaf_begin(leaf + 1, size, leaves_of_batch);
    return first_row(leaf) + part_rows < end ? first_row(leaf) + part_rows : end;
  }
  /// Where x and dy of a layer begin for the row at a position.
  KOKKOS_FUNCTION T* x_of(int layer, std::int64_t position) const {
    return buffer + cuts[layer].x * buffer_rows +
           (position - first_row(first_leaf)) * plans[layer].in;
  }
  KOKKOS_FUNCTION T* dy_of(int layer, std::int64_t position) const {
    return buffer + cuts[layer].dy * buffer_rows +
           (position - first_row(first_leaf)) * plans[layer].out;
  }
};

/// Calls f(integral_constant) with the order: K itself, or where K = 0 what is given.
template <int K, class F>
KAN_INLINE void with_order(int order, const F& f) {
  if constexpr (K > 0) {
    f(std::integral_constant<int, K>());
  } else {
    switch (order) {
      case 1:
        return f(std::integral_constant<int, 1>());
      case 2:
        return f(std::integral_constant<int, 2>());
      case 3:
        return f(std::integral_constant<int, 3>());
      case 4:
        return f(std::integral_constant<int, 4>());
      default:
        return f(std::integral_constant<int, 5>());
    }
  }
}

/// Sums of a leaf from those of its tiles, in their order: one thread.
template <class T>
KOKKOS_FUNCTION void add_tiles(const TeamTask<T>& task, int leaf) {
  const bool first = task.part_begin == 0;
  const int columns = task.layers + 1;
  const std::int64_t tile = std::int64_t(leaf - task.first_leaf) * task.tiles;
  double loss = first ? 0 : task.leaf_loss[leaf];
  for (int n = 0; n < task.tiles; ++n) loss += task.tile_loss[tile + n];
  task.leaf_loss[leaf] = loss;
  for (int c = 0; c < columns; ++c) {
    std::int64_t& to = c == 0
                           ? task.leaf_correct[leaf]
                           : task.leaf_outside[std::int64_t(leaf) * task.layers + c - 1];
    std::int64_t sum = first ? 0 : to;
    for (int n = 0; n < task.tiles; ++n)
      sum += task.tile_counts[(tile + n) * columns + c];
    to = sum;
  }
}

/// What both stages keep in scratch, in one place: an array after the other.
class ScratchCutter {
 public:
  KOKKOS_FUNCTION explicit ScratchCutter(void* at) : at_(static_cast<char*>(at)) {}
  template <class N>
  KOKKOS_FUNCTION N* take(std::int64_t count) {
    N* const array = reinterpret_cast<N*>(at_);
    at_ += count * sizeof(N);
    return array;
  }

 private:
  char* at_;
};

}  // namespace kan
