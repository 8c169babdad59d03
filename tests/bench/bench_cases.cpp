#include "bench/bench_cases.hpp"

namespace kan::bench {

std::string Case::name() const {
  std::string text;
  for (const int width : widths)
    text += (text.empty() ? "" : "-") + std::to_string(width);
  text += "_G" + std::to_string(grid) + "_k" + std::to_string(order) + "_b" +
          std::to_string(batch) + (fp64 ? "_f64" : "_f32");
  if (knots == Grid::quantile) text += "_quantile";
  if (reproducible) text += "_reproducible";
  if (full) text += "_full";
  return text;
}

std::int64_t Case::edges() const { return Shape(network()).edges(); }

NetworkOptions Case::network() const {
  NetworkOptions options;
  options.widths = widths;
  options.grid = {grid};
  options.order = {order};
  return options;
}

std::vector<Case> all_cases() {
  const std::vector<int> small{2, 64, 1}, wide{64, 64, 64}, image{784, 64, 10};
  std::vector<Case> cases;
  for (const bool fp64 : {false, true})
    for (const int grid : {5, 10})
      for (const std::int64_t batch : {256, 512, 1024, 16384})
        cases.push_back({.widths = small,
                         .grid = grid,
                         .batch = batch,
                         .fp64 = fp64,
                         .bar = fp64           ? 3.2
                                : batch <= 512 ? 2.0
                                               : 1.6});
  for (const bool fp64 : {false, true})
    for (const std::int64_t batch : {256, 1024, 4096, 16384})
      cases.push_back({.widths = wide,
                       .batch = batch,
                       .fp64 = fp64,
                       .bar = batch != 1024 ? 0
                              : fp64        ? 2.1
                                            : 0.85});
  for (const bool fp64 : {false, true}) {
    cases.push_back({.widths = image, .batch = 256, .fp64 = fp64, .bar = fp64 ? 0 : 1.2});
    cases.push_back(
        {.widths = {256, 256}, .batch = 1024, .fp64 = fp64, .bar = fp64 ? 0 : 1.0});
  }
  cases.push_back({.widths = small, .grid = 10, .batch = 100000, .full = true});
  cases.push_back({.widths = {12, 84, 42, 2}, .grid = 11, .batch = 30000, .full = true});
  cases.push_back({.widths = {2, 512, 1}, .batch = 1024});
  cases.push_back({.widths = {1024, 1024}, .batch = 1024});
  cases.push_back({.widths = {16, 256, 256, 4}, .batch = 4096});
  const auto ratio = [&](Case c, Case to, double bar) {
    c.against = to.name();
    c.ratio_bar = bar;
    cases.push_back(c);
  };
  for (const std::vector<int>& widths : {small, wide})
    ratio({.widths = widths, .knots = Grid::quantile}, {.widths = widths}, 1.4);
  ratio({.widths = small, .grid = 200, .batch = 16384}, {.widths = small, .batch = 16384},
        1.8);
  ratio({.widths = wide, .grid = 200}, {.widths = wide}, 0);
  for (const int order : {1, 2, 4, 5}) {
    ratio({.widths = wide, .order = order}, {.widths = wide}, 1.3 * (order + 2) / 5);
    ratio({.widths = small, .order = order}, {.widths = small}, 0);
  }
  for (const std::int64_t batch : {512, 1024, 16384})
    ratio({.widths = small, .grid = 10, .batch = batch, .reproducible = true},
          {.widths = small, .grid = 10, .batch = batch}, 1.1);
  ratio({.widths = wide, .reproducible = true}, {.widths = wide}, 1.1);
  return cases;
}

double operations(const Case& c) {
  const Shape shape(c.network());
  double sum = 0;
  for (int l = 0; l < shape.layers(); ++l)
    sum += double(shape.layer(l).in) * shape.layer(l).out * (l > 0 ? 3 : 2);
  return sum / double(shape.edges()) * (c.order + 2);
}

}  // namespace kan::bench
