#include "kan/engine/plan.hpp"

#include <algorithm>

#include "kan/basis/bspline.hpp"

namespace kan {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Rows whose distance is a large power of two fall into the same few sets of a cache:
// rows of more than 512 bytes are an odd number of lines apart.
template <class T>
std::int64_t apart(std::int64_t numbers, int lanes) {
  constexpr std::int64_t line = 64 / sizeof(T);
  const bool even = lanes > 1 && numbers * std::int64_t(sizeof(T)) > 512 &&
                    (numbers + line - 1) / line % 2 == 0;
  return even ? round_up(numbers, line) + std::max<std::int64_t>(line, lanes) : numbers;
}

// A knot row with k more knots at each end, so that the recurrence of a point in the
// outer intervals reads existing numbers; they only meet coefficients that are zero.
template <class T>
void append_padded(std::vector<T>& knots, const double* row, int count, int order) {
  const double first = row[1] - row[0], last = row[count - 1] - row[count - 2];
  for (int j = order; j > 0; --j) knots.push_back(T(row[0] - j * first));
  for (int j = 0; j < count; ++j) knots.push_back(T(row[j]));
  for (int j = 1; j <= order; ++j) knots.push_back(T(row[count - 1] + j * last));
}

// What the vectors of the host form read of knots. Lanes that pad a row of inputs get
// knots that 0 is between.
template <class T>
void append_pieces(Plan<T>& plan, LayerPlan& p, int lanes) {
  const std::vector<T> rows(plan.knots.begin() + p.knots, plan.knots.end());
  const int count = p.intervals + 1, inputs = p.uniform ? 1 : p.in;
  const int room = piece_room(p.order);
  const auto knot = [&](int input, int j) {
    if (!p.uniform && input >= p.in) return T(j - count / 2);
    return rows[std::size_t(p.uniform ? 0 : input) * p.knots_per_input + p.order + j];
  };
  const auto inverse = [&](int input, int c) {
    return T(1 / (double(knot(input, c + 1)) - double(knot(input, c))));
  };
  p.period = p.ld_in % lanes == 0 && !p.uniform ? p.ld_in : lanes;
  p.column_stride = p.period;
  p.pieces_per_input = p.uniform ? 0 : p.intervals * room;
  plan.knots.resize(round_up(plan.knots.size(), 16));
  p.columns = std::int64_t(plan.knots.size());
  for (int j = 0; j < count; ++j)
    for (int r = 0; r < p.period; ++r) plan.knots.push_back(knot(r % p.ld_in, j));
  for (int c = 0; c < p.intervals; ++c)
    for (int r = 0; r < p.period; ++r) plan.knots.push_back(inverse(r % p.ld_in, c));
  p.starts = std::int64_t(plan.knots.size());
  for (int r = 0; r < p.period; ++r) {
    const int input = r % p.ld_in;
    plan.knots.push_back(value_of<T>(
        input < p.in ? Integer<T>(std::int64_t(input) * p.pieces_per_input) : 0));
  }
  p.pieces = std::int64_t(plan.knots.size());
  std::vector<double> row(count + 2 * p.order), m(room);
  for (int i = 0; i < inputs; ++i) {
    for (int j = 0; j < int(row.size()); ++j) row[j] = double(knot(i, j - p.order));
    for (int c = 0; c < p.intervals; ++c) {
      interval_polynomials(p.order, &row[p.order + c], m.data());
      plan.knots.insert(plan.knots.end(), m.begin(), m.end());
    }
  }
}

}  // namespace

LayerPlan plan_of_inputs(const LayerPlan& plan, int first, int count) {
  LayerPlan p = plan;
  p.in = std::min(count, plan.in - first);
  p.ld_in = std::min(count, plan.ld_in - first);
  const std::int64_t edge_rows = std::int64_t(first) * plan.intervals;
  p.table += edge_rows * (plan.narrow ? row_room(plan.order) : plan.ld_out);
  p.base += std::int64_t(first) * (plan.narrow ? 1 : plan.ld_out);
  p.knots += std::int64_t(first) * plan.knots_per_input;
  if (plan.by_knots && plan.period == plan.ld_in) {
    p.period = p.ld_in;
    p.columns += first;
    p.starts += first;
  }
  return p;
}

template <class T>
Plan<T> make_plan(const Network<T>& network, int lanes, bool with_narrow) {
  const Shape& shape = network.shape();
  const int count = shape.layers();
  std::vector<bool> narrow(count + 1, false);
  for (int l = 0; l < count; ++l) narrow[l] = with_narrow && shape.layer(l).out == 1;

  // Activations that a vector kernel writes or a narrow layer reads are padded.
  std::vector<int> ld(count + 1);
  for (int l = 0; l <= count; ++l) {
    const int width = l < count ? shape.layer(l).in : shape.outputs();
    // Or the lanes of a vector do not fall on the same inputs from vector to vector.
    const bool by_knots = l < count && !network.knots(l).uniform && lanes % width != 0;
    const bool padded = l > 0 || narrow[l] || by_knots;
    ld[l] = padded ? int(apart<T>(round_up(width, lanes), lanes)) : width;
  }

  Plan<T> plan;
  plan.parameters = shape.parameters();
  plan.widest = *std::max_element(ld.begin(), ld.end());
  for (int l = 0; l < count; ++l) {
    const LayerShape& s = shape.layer(l);
    const Knots& knots = network.knots(l);
    LayerPlan p;
    p.in = s.in;
    p.out = s.out;
    p.grid = s.grid;
    p.order = s.order;
    p.intervals = s.grid + 2 * s.order;
    p.coefficients = shape.coefficients(l);
    p.ld_in = ld[l];
    p.ld_out = ld[l + 1];
    p.span = int(round_up(s.out, lanes));
    p.uniform = knots.uniform;
    p.narrow = narrow[l];
    p.base_silu = s.base == Base::silu;
    p.has_base = shape.has_base(l);
    p.has_scale = shape.scale_trained();
    p.rows = shape.rows(l);
    p.parameters = shape.offset(l);
    p.table = plan.table_size;
    if (p.narrow) {
      p.base = p.table + std::int64_t(p.ld_in) * p.intervals * row_room(s.order);
      plan.table_size = p.base + p.ld_in;
    } else {
      p.base = p.table + (std::int64_t(s.in) * p.intervals + s.order) * p.ld_out;
      plan.table_size = p.base + std::int64_t(s.in) * p.ld_out;
    }
    plan.table_size = round_up(plan.table_size, 16);

    p.knots = std::int64_t(plan.knots.size());
    p.low = knots.values[s.order];
    p.high = knots.values[s.order + s.grid];
    p.inverse_step = s.grid / (p.high - p.low);
    p.knots_per_input = knots.uniform ? 0 : shape.knots(l) + 2 * s.order;
    for (int i = 0; i < (knots.uniform ? 1 : s.in); ++i)
      append_padded(plan.knots, &knots.values[std::size_t(i) * shape.knots(l)],
                    shape.knots(l), s.order);
    p.by_knots = lanes > 1 && (!knots.uniform || s.order == 1);
    if (p.by_knots) append_pieces(plan, p, lanes);
    plan.layers.push_back(p);
  }
  return plan;
}

template Plan<float> make_plan(const Network<float>&, int, bool);
template Plan<double> make_plan(const Network<double>&, int, bool);

}  // namespace kan
