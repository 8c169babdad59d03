// Where kernels find things: one LayerPlan per layer, plain data that a device can read.
//
// Kernels do not read the flat parameters but a table of effective coefficients s c,
// formed once per step, laid out for them; gradients of a leaf have the same layout.
//   wide layer    rows of ld_out numbers: per input k zero rows, then its G+k coefficient
//                 rows; k zero rows end the layer. So the k+1 rows of any interval exist
//                 (interval c of input i starts at row i (G+2k) + c) and nothing branches
//                 outside the grid. Then one base row per input.
//   narrow layer  one output, host form only: per input and interval one polynomial of
//                 k+1 numbers in row_room places; then one base row of all inputs. Its
//                 gradient is the sums of dy t^p per interval, turned into coefficients
//                 after all leaves are summed.
// Activations of a layer are rows of ld_in numbers; places past `in` hold zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "kan/network.hpp"
#include "kan/options.hpp"

namespace kan {

/// Places of the polynomial of one interval of a narrow layer.
constexpr int row_room(int order) { return order < 4 ? 4 : 8; }
/// Places of the k+1 basis functions on one interval (interval_polynomials).
constexpr int piece_room(int order) { return ((order + 1) * (order + 1) + 3) / 4 * 4; }

struct LayerPlan {
  int in = 0, out = 0;
  int grid = 0, order = 0;
  int intervals = 0;     ///< G+2k
  int coefficients = 0;  ///< G+k
  int ld_in = 0, ld_out = 0;
  int span = 0;  ///< outputs rounded up to whole vectors: what kernels compute
  bool uniform = true, narrow = false;
  bool base_silu = true, has_base = true, has_scale = false;
  int rows = 0;                 ///< rows per input in the flat buffers
  std::int64_t parameters = 0;  ///< offset of the layer in the flat buffers
  std::int64_t table = 0;       ///< offset of its coefficients in the table
  std::int64_t base = 0;        ///< offset of its base row(s) in the table
  std::int64_t knots = 0;       ///< offset of its padded knots; one row if uniform
  int knots_per_input = 0;      ///< G+4k+1, or 0 if uniform (all inputs share the row)
  // Host form, where the interval is found by comparing with knots (order 1, and knots
  // that are not uniform): knots again, now knot j of the inputs of consecutive vector
  // lanes side by side, from the first input again after `period` lanes; 1 / width of
  // intervals likewise; and the pieces of all intervals.
  bool by_knots = false;
  int period = 0, column_stride = 0;
  std::int64_t columns = 0;  ///< (G+2k+1, column_stride) knots, (G+2k, ...) 1 / width
  std::int64_t starts = 0;   ///< offset of a lane's pieces, an integer's bits
  std::int64_t pieces = 0;   ///< (in or 1, G+2k, piece_room)
  int pieces_per_input = 0;  ///< 0 if all inputs share them
  double low = 0, high = 0;  ///< ends of the grid if uniform
  double inverse_step = 0;   ///< G/(hi-lo) if uniform
};

template <class T>
struct Plan {
  std::vector<LayerPlan> layers;
  std::vector<T> knots;  ///< rows of G+4k+1, each padded by k at both ends
  std::int64_t table_size = 0;
  std::int64_t parameters = 0;
  int widest = 0;  ///< largest ld of any activations
};

/// Inputs [first, first + count) of a layer as a layer of its own; first is a multiple of
/// the lanes of make_plan.
LayerPlan plan_of_inputs(const LayerPlan& plan, int first, int count);

/// lanes: what activations and rows are padded to; with_narrow: whether layers with one
/// output may take the polynomial form.
template <class T>
Plan<T> make_plan(const Network<T>& network, int lanes, bool with_narrow);

}  // namespace kan
