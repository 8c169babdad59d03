#include "kan/engine/plan.hpp"

#include <algorithm>

namespace kan {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

int row_room(int order) { return order + 1 <= 2 ? 2 : order + 1 <= 4 ? 4 : 8; }

// A knot row with k more knots at each end, so that the recurrence of a point in the
// outer intervals reads existing numbers; they only meet coefficients that are zero.
template <class T>
void append_padded(std::vector<T>& knots, const double* row, int count, int order) {
  const double first = row[1] - row[0], last = row[count - 1] - row[count - 2];
  for (int j = order; j > 0; --j) knots.push_back(T(row[0] - j * first));
  for (int j = 0; j < count; ++j) knots.push_back(T(row[j]));
  for (int j = 1; j <= order; ++j) knots.push_back(T(row[count - 1] + j * last));
}

}  // namespace

template <class T>
Plan<T> make_plan(const Network<T>& network, int lanes, bool with_narrow) {
  const Shape& shape = network.shape();
  const int count = shape.layers();
  std::vector<bool> narrow(count + 1, false);
  for (int l = 0; l < count; ++l)
    narrow[l] = with_narrow && shape.layer(l).out == 1 && network.knots(l).uniform;

  // Activations that a vector kernel writes or a narrow layer reads are padded.
  std::vector<int> ld(count + 1);
  for (int l = 0; l <= count; ++l) {
    const int width = l < count ? shape.layer(l).in : shape.outputs();
    const bool padded = l > 0 || narrow[l];
    ld[l] = padded ? int(round_up(width, lanes)) : width;
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
    plan.layers.push_back(p);
  }
  return plan;
}

template Plan<float> make_plan(const Network<float>&, int, bool);
template Plan<double> make_plan(const Network<double>&, int, bool);

}  // namespace kan
