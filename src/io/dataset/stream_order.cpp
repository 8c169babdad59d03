#include "io/dataset/stream_order.hpp"

#include <algorithm>

#include "io/dataset/split.hpp"
#include "kan/error.hpp"
#include "kan/random.hpp"
#include "kan/row_order.hpp"

namespace kan::io {

namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;
constexpr std::int64_t kLargestChunk = 16 * kPieceBytes;

/// Part of a purpose's stream for chunks; rows have part 0.
constexpr std::uint32_t kOfChunks = 1;

}  // namespace

std::int64_t piece_rows(std::int64_t columns) {
  return std::max<std::int64_t>(1, kPieceBytes / (8 * columns));
}

std::int64_t stream_chunk_rows(std::int64_t columns, std::int64_t file_chunk) {
  const std::int64_t rows = piece_rows(columns);
  if (file_chunk <= 0 || file_chunk > kLargestChunk / (8 * columns)) return rows;
  return (rows + file_chunk - 1) / file_chunk * file_chunk;
}

StreamSplit split_chunks(const RowRange& range, std::int64_t chunk_rows,
                         double validation, double test, std::uint64_t seed) {
  const std::int64_t rows = range.end - range.begin;
  HeldOut left = held_out_rows(rows, validation, test);
  std::vector<std::uint32_t> order = identity((rows + chunk_rows - 1) / chunk_rows);
  if (left.validation + left.test > 0)
    shuffle_order(seed, random_stream(Purpose::data_split, kOfChunks), 0, order);
  StreamSplit split;
  for (const std::uint32_t chunk : order) {
    std::int64_t begin = range.begin + chunk * chunk_rows;
    const std::int64_t end = std::min(begin + chunk_rows, range.end);
    const auto take = [&](std::int64_t most, std::vector<RowBlock>& to) {
      const std::int64_t taken = std::min(most, end - begin);
      if (taken > 0) to.push_back({begin, taken});
      begin += taken;
      return taken;
    };
    left.test -= take(left.test, split.test);
    left.validation -= take(left.validation, split.validation);
    take(end - begin, split.train);
  }
  for (auto* blocks : {&split.train, &split.validation, &split.test})
    std::sort(blocks->begin(), blocks->end(),
              [](const RowBlock& a, const RowBlock& b) { return a.begin < b.begin; });
  return split;
}

StreamOrder::StreamOrder(std::vector<RowBlock> chunks, std::uint64_t seed, bool shuffle)
    : chunks_(std::move(chunks)),
      seed_(seed),
      shuffle_(shuffle),
      sequence_(identity(std::int64_t(chunks_.size()))),
      start_(chunks_.size() + 1, 0) {
  for (std::size_t k = 0; k < chunks_.size(); ++k)
    start_[k + 1] = start_[k] + chunks_[k].rows;
}

void StreamOrder::start(std::int64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  if (!shuffle_) return;
  sequence_ = identity(std::int64_t(chunks_.size()));
  shuffle_order(seed_, random_stream(Purpose::chunk_order, std::uint32_t(epoch)), 0,
                sequence_);
  for (std::size_t k = 0; k < chunks_.size(); ++k)
    start_[k + 1] = start_[k] + chunks_[sequence_[k]].rows;
}

std::vector<RowBlock> StreamOrder::blocks(const parallel::Range& positions) const {
  KAN_REQUIRE(0 <= positions.begin && positions.end <= rows(),
              "StreamOrder: positions outside the epoch");
  std::vector<RowBlock> out;
  auto k = std::size_t(std::upper_bound(start_.begin(), start_.end(), positions.begin) -
                       start_.begin()) -
           1;
  for (std::int64_t at = positions.begin; at < positions.end; ++k) {
    const std::int64_t end = std::min(start_[k + 1], positions.end);
    const std::int64_t begin = chunks_[sequence_[k]].begin + at - start_[k];
    // Neighbours in the file are read as one.
    if (!out.empty() && out.back().begin + out.back().rows == begin)
      out.back().rows += end - at;
    else
      out.push_back({begin, end - at});
    at = end;
  }
  return out;
}

// A window has the random words that begin at its first position to itself.
std::vector<std::uint32_t> StreamOrder::window_order(
    const parallel::Range& window) const {
  std::vector<std::uint32_t> order = identity(window.size());
  if (shuffle_)
    shuffle_order(seed_, random_stream(Purpose::window_order, std::uint32_t(epoch_)),
                  std::uint64_t(window.begin), order);
  return order;
}

}  // namespace kan::io
