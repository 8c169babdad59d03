#include "run/stream_feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "io/dataset/scaling.hpp"
#include "kan/error.hpp"
#include "parallel/first_error.hpp"
#include "run/memory.hpp"

namespace kan::run {
namespace {

// The first element of each segment, from their sizes.
std::vector<std::size_t> starts(const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> out(sizes.size(), 0);
  for (std::size_t q = 1; q < sizes.size(); ++q) out[q] = out[q - 1] + sizes[q - 1];
  return out;
}

std::size_t sum(const std::vector<std::size_t>& sizes) {
  std::size_t all = 0;
  for (const std::size_t size : sizes) all += size;
  return all;
}

std::vector<std::size_t> times(std::vector<std::size_t> sizes, std::size_t columns) {
  for (std::size_t& size : sizes) size *= columns;
  return sizes;
}

// Part of `parts` of n things that thing i is in: the inverse of parallel::share.
int part_of(std::int64_t i, std::int64_t n, int parts) {
  return int(((i + 1) * parts - 1) / n);
}

template <class V>
void grow(V& view, std::int64_t rows, std::int64_t columns, const char* label) {
  if (std::int64_t(view.extent(0)) >= rows && std::int64_t(view.extent(1)) == columns)
    return;
  view = V();  // the old one goes first
  view = V(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)), rows,
           columns);
}

}  // namespace

std::int64_t window_row_bytes(std::int64_t columns, std::int64_t number_bytes) {
  return 2 * columns * number_bytes + 4 * std::int64_t(sizeof(std::uint32_t));
}

std::int64_t window_rows(std::int64_t bytes, std::int64_t columns,
                         std::int64_t number_bytes, std::int64_t update_rows,
                         std::int64_t rows) {
  constexpr std::int64_t kMost = std::int64_t(1) << 31;  // orders are of 32 bits
  const std::int64_t fit =
      std::min(bytes / window_row_bytes(columns, number_bytes), kMost);
  const std::int64_t updates = (rows + update_rows - 1) / update_rows;
  if (fit >= update_rows) return std::min(fit / update_rows, updates) * update_rows;
  throw Error(Code::device,
              fmt::format("data/replicate_below: {} are room for {} rows that are "
                          "streamed, an update takes {} (optimizer/batch x accumulate); "
                          "raise the one or lower the other",
                          bytes_text(double(bytes)), fit, update_rows));
}

template <class T>
StreamFeed<T>::StreamFeed(const io::DataOptions& data, const io::DataShape& shape,
                          const io::StreamedData& stream,
                          parallel::Communicator& communicator,
                          const StreamFeedOptions& options)
    : communicator_(communicator),
      options_(options),
      shape_(shape),
      input_scaling_(stream.data.input_scaling),
      target_scaling_(stream.data.target_scaling),
      reader_(data, shape),
      order_(stream.chunks, options.seed, options.shuffle) {
  KAN_REQUIRE(options.window_rows % options.update_rows == 0,
              "StreamFeed: a window is whole updates");
}

template <class T>
StreamFeed<T>::~StreamFeed() {
  stop_reading();
}

template <class T>
void StreamFeed<T>::start_epoch(const Exec&, std::int64_t epoch, std::int64_t position) {
  epoch_ = epoch;
  base_ = position % options_.update_rows;
}

template <class T>
typename StreamFeed<T>::Window StreamFeed<T>::window_at(std::int64_t epoch,
                                                        std::int64_t base,
                                                        std::int64_t position) const {
  const std::int64_t begin =
      base + (position - base) / options_.window_rows * options_.window_rows;
  return {epoch, {begin, std::min(begin + options_.window_rows, rows())}};
}

template <class T>
void StreamFeed<T>::start_reading(const Window& window) {
  next_ = window;
  stop_ = false;
  reading_ = std::async(std::launch::async, [this, window] { read(window); });
}

template <class T>
void StreamFeed<T>::stop_reading() {
  stop_ = true;
  if (reading_.valid()) reading_.wait();
  reading_ = {};
}

// Where the rows of a window go. mine: what this rank reads of it, from 0.
template <class T>
void StreamFeed<T>::plan(const Window& window, const parallel::Range& mine) {
  const std::vector<std::uint32_t> order = order_.window_order(window.positions);
  const std::int64_t rows = window.positions.size();
  const int ranks = communicator_.size(), rank = communicator_.rank();
  // Rows in the order of batches and, within one, of ranks: use(row of the sequence,
  // rank).
  const auto each = [&](const auto& use) {
    for (std::int64_t b = 0; b < rows; b += options_.update_rows) {
      const std::int64_t size = std::min(options_.update_rows, rows - b);
      for (int q = 0; q < ranks; ++q) {
        const parallel::Range part = options_.parts.part(size, q);
        for (std::int64_t i = part.begin; i < part.end; ++i) use(order[b + i], q);
      }
    }
  };
  send_rows_.assign(ranks, 0);
  receive_rows_.assign(ranks, 0);
  each([&](std::int64_t s, int q) {
    if (mine.begin <= s && s < mine.end) ++send_rows_[q];
    if (q == rank) ++receive_rows_[part_of(s, rows, ranks)];
  });
  std::vector<std::size_t> to = starts(send_rows_), from = starts(receive_rows_);
  slot_.resize(mine.size());
  place_.clear();
  place_.reserve(sum(receive_rows_));
  each([&](std::int64_t s, int q) {
    if (mine.begin <= s && s < mine.end) slot_[s - mine.begin] = std::uint32_t(to[q]++);
    if (q == rank) place_.push_back(std::uint32_t(from[part_of(s, rows, ranks)]++));
  });
}

// On the thread.
template <class T>
void StreamFeed<T>::read(const Window& window) {
  order_.start(window.epoch);
  const parallel::Range mine = parallel::share(
      window.positions.size(), communicator_.size(), communicator_.rank());
  plan(window, mine);
  const std::int64_t in = shape_.inputs, columns = shape_.targets;
  send_x_.resize(mine.size() * in);
  send_y_.resize(mine.size() * columns);
  std::int64_t at = 0;
  const auto put = [&](io::StreamReader::Piece& piece) {
    io::apply_scaling(input_scaling_, piece.x);
    io::apply_scaling(target_scaling_, piece.y);
    for (std::int64_t r = 0; r < piece.rows; ++r, ++at) {
      const auto cast = [](double value) { return T(value); };
      const std::int64_t slot = slot_[at];
      std::transform(piece.x.begin() + r * in, piece.x.begin() + (r + 1) * in,
                     send_x_.begin() + slot * in, cast);
      std::transform(piece.y.begin() + r * columns, piece.y.begin() + (r + 1) * columns,
                     send_y_.begin() + slot * columns, cast);
    }
    return !stop_;
  };
  const std::int64_t first = window.positions.begin;
  for (const io::RowBlock& block : order_.blocks({first + mine.begin, first + mine.end}))
    if (!reader_.read(block, put)) return;
}

// Collective. Every row to its rank.
template <class T>
void StreamFeed<T>::exchange(const Exec& exec) {
  exec.fence("kan::run::StreamFeed: the window before is done with");
  const std::int64_t own = std::int64_t(place_.size());
  grow(inputs_, own, shape_.inputs, "kan::run::StreamFeed::inputs");
  grow(targets_, own, shape_.targets, "kan::run::StreamFeed::targets");
  if (std::int64_t(order_of_rows_.extent(0)) < own)
    order_of_rows_ = View1<std::uint32_t>("kan::run::StreamFeed::order", own);
  const auto send = [&](const std::vector<T>& values, const View2<T>& to) {
    const auto columns = std::size_t(to.extent(1));
    const auto host = Kokkos::create_mirror_view(to);
    communicator_.alltoallv(std::span<const T>(values), times(send_rows_, columns),
                            std::span<T>(host.data(), std::size_t(own) * columns),
                            times(receive_rows_, columns));
    Kokkos::deep_copy(to, host);
  };
  send(send_x_, inputs_);
  send(send_y_, targets_);
  using Host =
      Kokkos::View<const std::uint32_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  Kokkos::deep_copy(
      Kokkos::subview(order_of_rows_, std::pair<std::int64_t, std::int64_t>(0, own)),
      Host(place_.data(), place_.size()));
}

template <class T>
void StreamFeed<T>::switch_to(const Exec& exec, const Window& window) {
  if (!reading_.valid() || next_ != window) {
    stop_reading();
    start_reading(window);
  }
  std::optional<Error> failed;
  try {
    reading_.get();
  } catch (const Error& error) {
    failed = error;
  }
  parallel::throw_first(communicator_, failed, reader_.failed_row());
  exchange(exec);
  current_ = window;
  const std::int64_t end = window.positions.end;
  start_reading(end < rows() ? window_at(window.epoch, base_, end)
                             : window_at(window.epoch + 1, 0, 0));
}

template <class T>
Batch<T> StreamFeed<T>::batch(const Exec& exec, std::int64_t position, std::int64_t rows,
                              const parallel::Range& own) {
  const Window window = window_at(epoch_, base_, position);
  if (current_ != window) switch_to(exec, window);
  const std::int64_t from = position - window.positions.begin,
                     update = options_.update_rows;
  KAN_REQUIRE(from % update == 0 && rows == std::min(update, this->rows() - position),
              "StreamFeed: batches of an epoch follow each other");
  Batch<T> batch;
  batch.inputs = inputs_;
  batch.targets = targets_;
  batch.order = order_of_rows_;
  batch.begin = from / update * options_.parts.part(update, communicator_.rank()).size() -
                own.begin;
  return batch;
}

template class StreamFeed<float>;
template class StreamFeed<double>;

}  // namespace kan::run
