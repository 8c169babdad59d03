#include "run/stream_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "io/dataset/scaling.hpp"
#include "io/dataset/stream_order.hpp"
#include "kan/error.hpp"
#include "kan/evaluate.hpp"
#include "parallel/first_error.hpp"
#include "run/rows.hpp"

namespace kan::run {
namespace {

// This rank's rows of those evaluated at once.
struct OwnRows {
  std::vector<double> x, y;  // scaled
  std::vector<double> original_y;
};

OwnRows read_own(StreamedSet& set, const std::vector<io::RowBlock>& blocks) {
  OwnRows own;
  const auto append = [](std::vector<double>& to, const std::vector<double>& values) {
    to.insert(to.end(), values.begin(), values.end());
  };
  const auto add = [&](io::StreamReader::Piece& piece) {
    append(own.original_y, piece.y);
    io::apply_scaling(set.input_scaling, piece.x);
    io::apply_scaling(set.target_scaling, piece.y);
    append(own.x, piece.x);
    append(own.y, piece.y);
    return true;
  };
  for (const io::RowBlock& block : blocks) set.reader.read(block, add);
  return own;
}

// Squared errors of this rank's leaves, in original units.
template <class T>
std::vector<double> squares(const EvaluationParts& parts, int rank, const T* prediction,
                            const RowSet<T>& rows, const Scaling& scaling) {
  std::vector<double> out(parts.leaves, 0.0);
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), rows.targets);
  const std::int64_t columns = std::int64_t(y.extent(1));
  const parallel::Range leaves = parts.own_leaves(rank);
  const std::int64_t first = parts.own_rows(rank).begin;
  for (std::int64_t v = leaves.begin; v < leaves.end; ++v)
    for (std::int64_t r = leaf_begin(v, parts.rows, parts.leaves);
         r < leaf_begin(v + 1, parts.rows, parts.leaves); ++r)
      for (std::int64_t o = 0; o < columns; ++o) {
        const double error =
            (double(prediction[r * columns + o]) - double(y(r - first, o))) *
            scaling.scale[o];
        out[v] += error * error;
      }
  return out;
}

}  // namespace

std::int64_t rows_at_once(std::int64_t bytes, std::int64_t columns, std::int64_t outputs,
                          std::int64_t number_bytes) {
  // As read, as scaled, and where kernels run; predictions twice, and for the user.
  const std::int64_t row = columns * (2 * std::int64_t(sizeof(double)) + number_bytes) +
                           3 * outputs * number_bytes;
  return std::clamp<std::int64_t>(bytes / row, 1, std::int64_t(1) << 31);
}

template <class T>
SetMetrics measure_stream(const Exec& exec, Engine<T>& engine,
                          parallel::Communicator& communicator, StreamedSet& set,
                          LossKind loss, std::int64_t most, const UseRows<T>& use) {
  const io::StreamOrder order(set.blocks, 0, false);
  const std::int64_t all = order.rows();
  const int in = engine.plan().layers.front().in, out = engine.plan().layers.back().out;
  const int columns = target_columns(loss, out), rank = communicator.rank();
  const bool classes = loss == LossKind::cross_entropy;
  EvaluationSums sums;
  double square_sum = 0;
  sums.outside.assign(engine.plan().layers.size(), 0);
  for (std::int64_t begin = 0; begin < all; begin += most) {
    const EvaluationParts parts(std::min(most, all - begin), communicator.size());
    const parallel::Range own = parts.own_rows(rank);
    OwnRows rows;
    std::optional<Error> failed;
    try {
      rows = read_own(set, order.blocks({begin + own.begin, begin + own.end}));
    } catch (const Error& error) {
      failed = error;
    }
    parallel::throw_first(communicator, failed, set.reader.failed_row());
    const RowSet<T> scaled{
        to_device<T>(rows.x, own.size(), in, "kan::run::inputs"),
        to_device<T>(rows.y, own.size(), columns, "kan::run::targets")};
    const View2<T> output("kan::run::output", parts.rows, out);
    const EvaluationSums some = evaluation_sums(exec, engine, communicator, parts, scaled,
                                                own.begin, loss, output);
    sums.loss += some.loss;
    sums.correct += some.correct;
    for (std::size_t l = 0; l < sums.outside.size(); ++l)
      sums.outside[l] += some.outside[l];
    if (classes && !use) continue;
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), output);
    if (!classes)
      square_sum +=
          sum_leaves(communicator, parts,
                     squares(parts, rank, host.data(), scaled, set.target_scaling));
    if (!use) continue;
    std::vector<T> prediction(host.data(), host.data() + host.size());
    std::vector<T> target(std::size_t(parts.rows * columns));
    std::transform(rows.original_y.begin(), rows.original_y.end(),
                   target.begin() + own.begin * columns,
                   [](double value) { return T(value); });
    gather_rows(communicator, parts, prediction.data(), out);
    gather_rows(communicator, parts, target.data(), columns);
    if (!classes) io::unscale(set.target_scaling, prediction);
    use(parts.rows, prediction, target);
  }
  const double none = std::numeric_limits<double>::quiet_NaN(), count = double(all);
  SetMetrics metrics{none, none, none, {}};
  if (all == 0) return metrics;
  metrics.loss = sums.loss / loss_terms(loss, count, out);
  if (classes)
    metrics.accuracy = double(sums.correct) / count;
  else
    metrics.rmse = std::sqrt(square_sum / (count * out));
  for (std::size_t l = 0; l < sums.outside.size(); ++l)
    metrics.outside.push_back(double(sums.outside[l]) /
                              (count * engine.plan().layers[l].in));
  return metrics;
}

template SetMetrics measure_stream(const Exec&, Engine<float>&, parallel::Communicator&,
                                   StreamedSet&, LossKind, std::int64_t,
                                   const UseRows<float>&);
template SetMetrics measure_stream(const Exec&, Engine<double>&, parallel::Communicator&,
                                   StreamedSet&, LossKind, std::int64_t,
                                   const UseRows<double>&);

}  // namespace kan::run
