#include "parallel/first_error.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace kan::parallel {

void throw_first(Communicator& communicator, const std::optional<Error>& own,
                 std::int64_t order) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> orders =
      communicator.allgather(own ? std::min(order, kNone - 1) : kNone);
  const auto first = std::min_element(orders.begin(), orders.end());
  if (*first == kNone) return;
  const int rank = static_cast<int>(first - orders.begin());
  const bool mine = rank == communicator.rank();
  const std::vector<int> codes =
      communicator.allgather(own ? static_cast<int>(own->code()) : 0);
  const std::string text = mine ? own->what() : "";
  const std::vector<std::size_t> lengths = communicator.allgather(text.size());
  std::string all(lengths[static_cast<std::size_t>(rank)], '\0');
  communicator.allgatherv(std::span<const char>(text), std::span<char>(all), lengths);
  throw Error(static_cast<Code>(codes[static_cast<std::size_t>(rank)]), all);
}

}  // namespace kan::parallel
