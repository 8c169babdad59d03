// Initial parameters, each a function of (seed, layer, edge, coefficient) only.
//
// Noise is given at the G+1 interior knots; the coefficients of a spline through it are
// not unique (G+k of them), and both peers take the minimum-norm solution, which their
// least squares return. It is linear: one (G+k) x (G+1) matrix per layer, A^+ for the
// collocation matrix A at the knots, times the noise of each edge.
//   PyKAN          a = U(-1,1)/sqrt(n), s = 1/sqrt(n), noise U(-1/2,1/2) 0.3/G
//   efficient-kan  a = U(-1,1)/sqrt(n), s = U(-1,1)/sqrt(n), noise U(-1/2,1/2) 0.1/G
#include <lapacke.h>

#include <cmath>

#include "kan/basis/bspline.hpp"
#include "kan/error.hpp"
#include "kan/network.hpp"
#include "kan/random.hpp"

namespace kan {
namespace {

// Values of all basis functions with an index >= 0 at x, added into row (G+k).
template <int K>
void fill_row(double x, const double* padded, int grid, double* row) {
  const int c = find_interval(x, padded + K, grid + 2 * K);
  double values[K + 1];
  knot_basis<K, false>(x, padded + K + c, values, static_cast<double*>(nullptr));
  for (int j = 0; j <= K; ++j) {
    const int index = c - K + j;
    if (index >= 0 && index < grid + K) row[index] = values[j];
  }
}

// The (G+k) x (G+1) matrix, row-major: dgels solves A c = e_p in the minimum norm for all
// p.
std::vector<double> minimum_norm_fit(int grid, int order) {
  const int n = grid + order, m = grid + 1;
  // On the unit grid with step 1: the matrix does not depend on the ends of the grid.
  std::vector<double> padded =
      uniform_knots(-order, grid + order, grid + 2 * order, order);
  std::vector<double> a(std::size_t(m) * n, 0.0), b(std::size_t(n) * m, 0.0);
  for (int p = 0; p < m; ++p) {
    b[std::size_t(p) * m + p] = 1;
    double* row = &a[std::size_t(p) * n];
    switch (order) {
      case 1:
        fill_row<1>(p, padded.data(), grid, row);
        break;
      case 2:
        fill_row<2>(p, padded.data(), grid, row);
        break;
      case 3:
        fill_row<3>(p, padded.data(), grid, row);
        break;
      case 4:
        fill_row<4>(p, padded.data(), grid, row);
        break;
      default:
        fill_row<5>(p, padded.data(), grid, row);
        break;
    }
  }
  const lapack_int info =
      LAPACKE_dgels(LAPACK_ROW_MAJOR, 'N', m, n, m, a.data(), n, b.data(), m);
  if (info != 0)
    throw Error(Code::numerical,
                "initial coefficients: LAPACK dgels returned " + std::to_string(info));
  return b;
}

}  // namespace

template <class T>
void initialize(const Network<T>& network, Initialization kind, std::uint64_t seed) {
  const Shape& shape = network.shape();
  const bool pykan = kind == Initialization::pykan;
  std::vector<LayerArrays<T>> arrays(shape.layers());
  for (int l = 0; l < shape.layers(); ++l) {
    const LayerShape& s = shape.layer(l);
    const int n = shape.coefficients(l), points = s.grid + 1;
    const std::size_t edges = std::size_t(s.in) * s.out;
    const double width = 1 / std::sqrt(double(s.in));
    const auto draw = [&](int array, std::size_t index) {  // U(-1, 1)
      const auto stream =
          random_stream(Purpose::initialize, std::uint32_t(4 * l + array));
      return 2 * random_uniform(seed, stream, index) - 1;
    };
    const double noise = (pykan ? 0.3 : 0.1) / s.grid / 2;
    const std::vector<double> fit = minimum_norm_fit(s.grid, s.order);
    LayerArrays<T>& a = arrays[l];
    a.coef.resize(edges * n);
    if (shape.has_base(l)) a.scale_base.resize(edges);
    if (shape.scale_trained()) a.scale_spline.resize(edges);
    std::vector<double> sample(points);
    for (std::size_t e = 0; e < edges; ++e) {
      const double scale = pykan ? width : width * draw(2, e);
      const double folded = shape.scale_trained() ? 1 : scale;
      for (int p = 0; p < points; ++p) sample[p] = noise * draw(0, e * points + p);
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int p = 0; p < points; ++p)
          sum += fit[std::size_t(j) * points + p] * sample[p];
        a.coef[e * n + j] = T(folded * sum);
      }
      if (shape.has_base(l)) a.scale_base[e] = T(width * draw(1, e));
      if (shape.scale_trained()) a.scale_spline[e] = T(scale);
    }
  }
  network.pack(arrays, network.parameters());
}

template void initialize(const Network<float>&, Initialization, std::uint64_t);
template void initialize(const Network<double>&, Initialization, std::uint64_t);

}  // namespace kan
