#include "kan/row_order.hpp"

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
  // One block of random words serves two positions.
  std::uint64_t bits[2] = {};
  for (std::int64_t i = rows - 1; i > 0; --i) {
    if (i == rows - 1 || i % 2 == 1) {
      const auto words = random_words(seed, stream, first + std::uint64_t(i) / 2);
      bits[0] = words[0] | std::uint64_t(words[1]) << 32;
      bits[1] = words[2] | std::uint64_t(words[3]) << 32;
    }
    __extension__ using Wide = unsigned __int128;
    const auto j = std::int64_t((Wide(bits[i % 2]) * Wide(i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

}  // namespace kan
