#include "parallel/digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <map>

#include "kan/error.hpp"
#include "parallel/rank_list.hpp"

namespace kan::parallel {

std::uint64_t digest(std::span<const std::byte> bytes, std::uint64_t before) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
}

std::vector<int> odd_ranks(const std::vector<std::uint64_t>& values) {
  std::map<std::uint64_t, int> count;
  for (const std::uint64_t value : values) ++count[value];
  std::uint64_t common = values.front();
  for (const auto& [value, ranks] : count) {
    if (ranks > count[common]) common = value;
  }
  std::vector<int> odd;
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] != common) odd.push_back(static_cast<int>(r));
  }
  return odd;
}

void require_equal(Communicator& communicator, std::uint64_t value,
                   const std::string& what) {
  const std::vector<int> odd = odd_ranks(communicator.allgather(value));
  if (odd.empty()) return;
  throw Error(Code::communication,
              what + ": " + rank_list(odd, communicator.size()) +
                  " differ from the others: a fault of memory, of a device or of the "
                  "network there; go on from the last checkpoint, without that node");
}

}  // namespace kan::parallel
