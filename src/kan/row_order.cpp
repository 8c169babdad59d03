#include "kan/row_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kan/error.hpp"
#include "kan/random.hpp"

namespace kan {

std::vector<std::uint32_t> row_order(std::uint64_t seed, std::int64_t epoch,
                                     std::int64_t rows, bool shuffle) {
  std::vector<std::uint32_t> order = identity(rows);
  if (shuffle)
    shuffle_order(seed, random_stream(Purpose::order, std::uint32_t(epoch)), 0, order);
  return order;
}

std::vector<std::uint32_t> identity(std::int64_t rows) {
  KAN_REQUIRE(rows >= 0 && rows < (std::int64_t(1) << 32), "row_order: too many rows");
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

void shuffle_order(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                   std::vector<std::uint32_t>& order) {
  const std::int64_t rows = std::int64_t(order.size());
  // A block of random words serves two positions; many blocks are made at a time.
  constexpr std::int64_t kWords = 512;
  std::uint64_t bits[kWords];
  for (std::int64_t end = rows; end > 1;) {
    const std::int64_t begin = (end - 1) / kWords * kWords;
    random_blocks(seed, stream, first + std::uint64_t(begin) / 2, bits);
    for (std::int64_t i = end - 1; i >= std::max<std::int64_t>(begin, 1); --i) {
      __extension__ using Wide = unsigned __int128;
      const auto j = std::int64_t((Wide(bits[i - begin]) * Wide(i + 1)) >> 64);
      std::swap(order[i], order[j]);
    }
    end = begin;
  }
}

}  // namespace kan
