// The exchange and the last additions of the fixed tree. A block of a round's message, in
// 64-bit words: [non-finite count | flags | losses of its subtrees] in the first round,
// then the round's elements of each subtree, padded to whole words.
#include "parallel/tree.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLaneHeader = 2;       // words before the losses
constexpr std::int64_t kBlock = 2048;        // elements added at a time, to stay in cache
constexpr std::int64_t kThreaded = 1 << 14;  // below this, starting threads costs more

std::uint64_t pack(const StopFlags& stop) {
  return (stop.signal_stop ? 1u : 0u) | (stop.signal_checkpoint ? 2u : 0u) |
         (stop.stop_now ? 4u : 0u) | (stop.output_now ? 8u : 0u) |
         (stop.walltime ? 16u : 0u);
}

StopFlags unpack(std::uint64_t bits) {
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
          (bits & 16) != 0};
}

}  // namespace

template <class T>
TreeReducer<T>::TreeReducer(Communicator& communicator, std::int64_t parameters,
                            std::int64_t leaves, std::size_t round_bytes)
    : communicator_(communicator), parameters_(parameters) {
  KAN_REQUIRE(parameters >= 0, "TreeReducer: negative number of parameters");
  KAN_REQUIRE(leaves >= 1 && (leaves & (leaves - 1)) == 0,
              "TreeReducer: the number of leaves must be a power of two");
  const int ranks = communicator.size();
  if (ranks > leaves) {
    throw Error(Code::usage,
                "parallel/reproducible = true: " + std::to_string(ranks) +
                    " ranks share " + std::to_string(leaves) +
                    " shards of a batch; start at most " + std::to_string(leaves) +
                    " ranks, or raise optimizer/batch or parallel/max_shards, or lower "
                    "parallel/shard_rows");
  }
  // The stack of partial sums as every rank will see it: subtrees in order, and the top
  // two entries become one when they are siblings. They are when they have equal sizes:
  // all leaves before them are on the stack, in blocks that only get smaller.
  struct Entry {
    std::int64_t count;
    std::size_t node;
  };
  std::vector<Entry> stack;
  std::size_t node = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto subtrees = aligned_subtrees(rank_leaves(leaves, ranks, rank));
    subtree_counts_.push_back(subtrees.size());
    if (rank == communicator.rank()) own_ = subtrees;
    for (const Subtree& tree : subtrees) {
      stack.push_back({tree.count, node++});
      while (stack.size() > 1 && stack[stack.size() - 2].count == stack.back().count) {
        Entry& left = stack[stack.size() - 2];
        merges_.push_back({left.node, stack.back().node});
        left.count *= 2;
        stack.pop_back();
      }
    }
  }
  const auto fitting =
      static_cast<std::int64_t>(round_bytes / (node * sizeof(T))) / 16 * 16;
  round_ = std::max<std::int64_t>(16, fitting);
  partials_ = View1<T>("kan::TreeReducer::partials",
                       own_.size() * static_cast<std::size_t>(parameters));
  host_ = Kokkos::create_mirror_view(partials_);
  nodes_.resize(node);
}

template <class T>
View1<T> TreeReducer<T>::gradient() const {
  return Kokkos::subview(partials_,
                         std::pair<std::int64_t, std::int64_t>(0, parameters_));
}

/// Gathers elements [begin, end) of all subtrees, behind the ranks' lanes where there is
/// one (first round; each rank's has its own length). Sets words_ and nodes_.
template <class T>
void TreeReducer<T>::gather(std::int64_t begin, std::int64_t end,
                            std::span<const std::uint64_t> lane) {
  const std::size_t bytes = static_cast<std::size_t>(end - begin) * sizeof(T);
  const auto lane_words = [&](std::size_t subtrees) {
    return lane.empty() ? 0 : kLaneHeader + subtrees;
  };
  std::size_t total = 0;
  words_.clear();
  for (const std::size_t subtrees : subtree_counts_) {
    words_.push_back(lane_words(subtrees) + (subtrees * bytes + kWord - 1) / kWord);
    total += words_.back();
  }
  gathered_.resize(total);
  sent_.assign(words_[static_cast<std::size_t>(communicator_.rank())], 0);
  std::copy(lane.begin(), lane.end(), sent_.begin());
  auto* to = reinterpret_cast<std::byte*>(sent_.data() + lane.size());
  for (std::size_t j = 0; j < own_.size() && bytes > 0; ++j, to += bytes) {
    std::memcpy(to, host_.data() + static_cast<std::int64_t>(j) * parameters_ + begin,
                bytes);
  }
  communicator_.allgatherv(std::span<const std::uint64_t>(sent_), std::span(gathered_),
                           words_);
  std::size_t word = 0, node = 0;
  for (std::size_t rank = 0; rank < words_.size(); ++rank) {
    const std::size_t subtrees = subtree_counts_[rank];
    T* elements = reinterpret_cast<T*>(gathered_.data() + word + lane_words(subtrees));
    for (std::size_t j = 0; j < subtrees; ++j, elements += end - begin) {
      nodes_[node++] = elements;
    }
    word += words_[rank];
  }
}

/// The additions of the tree, for each of the round's elements; the sum ends in node 0.
template <class T>
void TreeReducer<T>::add_up(std::int64_t length) {
  const auto* merges = merges_.data();
  const std::size_t count = merges_.size();
  T* const* nodes = nodes_.data();
  const auto block = [=](const std::int64_t b) {
    const std::int64_t first = b * kBlock, last = std::min(first + kBlock, length);
    for (std::size_t m = 0; m < count; ++m) {
      T* const into = nodes[merges[m].into];
      const T* const from = nodes[merges[m].from];
      for (std::int64_t i = first; i < last; ++i) into[i] += from[i];
    }
  };
  const std::int64_t blocks = (length + kBlock - 1) / kBlock;
  if (length < kThreaded) {
    for (std::int64_t b = 0; b < blocks; ++b) block(b);
    return;
  }
  const HostExec host;
  Kokkos::parallel_for("kan::TreeReducer::add_up",
                       Kokkos::RangePolicy<HostExec>(host, 0, blocks), block);
  host.fence("kan::TreeReducer: round is added up");
}

template <class T>
LaneOut TreeReducer<T>::reduce(const Exec& exec, std::span<const double> losses,
                               const LaneIn& in) {
  KAN_REQUIRE(losses.size() == own_.size(), "TreeReducer: one loss a subtree");
  std::vector<std::uint64_t> lane(kLaneHeader);
  LaneIn mine = in;
  mine.loss_sum = 0;
  std::int64_t bad = 0;
  for (const double loss : losses) {
    bad += std::isfinite(loss) ? 0 : 1;
    lane.push_back(std::bit_cast<std::uint64_t>(std::isfinite(loss) ? loss : 0.0));
  }
  mine.nonfinite = std::max(mine.nonfinite, bad);
  mine = sanitized<double>(mine, communicator_.rank());
  if (communicator_.size() == 1) {
    return {std::bit_cast<double>(lane[kLaneHeader]), mine.nonfinite, mine.stop};
  }
  lane[0] = static_cast<std::uint64_t>(mine.nonfinite);
  lane[1] = pack(mine.stop);

  exec.fence("kan::TreeReducer: partial sums are complete");
  if constexpr (!kHostExecution) Kokkos::deep_copy(host_, partials_);
  LaneOut out;
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(begin + round_, parameters_);
    const bool first = begin == 0;
    gather(
        begin, end,
        first ? std::span<const std::uint64_t>(lane) : std::span<const std::uint64_t>());
    if (first) out = read_lanes();
    add_up(end - begin);
    if (end > begin) {
      std::memcpy(host_.data() + begin, nodes_[0],
                  static_cast<std::size_t>(end - begin) * sizeof(T));
    }
    begin = end;
  } while (begin < parameters_);
  if constexpr (!kHostExecution) {
    const std::pair<std::int64_t, std::int64_t> root(0, parameters_);
    Kokkos::deep_copy(exec, gradient(), Kokkos::subview(host_, root));
    exec.fence("kan::TreeReducer: sum is on the device");
  }
  return out;
}

/// Counts, flags and the losses' own tree from the lanes of the first round.
template <class T>
LaneOut TreeReducer<T>::read_lanes() const {
  LaneOut out;
  std::uint64_t flags = 0;
  std::vector<double> losses;
  const std::uint64_t* block = gathered_.data();
  for (std::size_t rank = 0; rank < subtree_counts_.size(); ++rank) {
    out.nonfinite += static_cast<std::int64_t>(block[0]);
    flags |= block[1];
    for (std::size_t j = 0; j < subtree_counts_[rank]; ++j) {
      losses.push_back(std::bit_cast<double>(block[kLaneHeader + j]));
    }
    block += words_[rank];
  }
  for (const Merge& merge : merges_) losses[merge.into] += losses[merge.from];
  out.loss_sum = losses[0];
  out.stop = unpack(flags);
  return out;
}

template class TreeReducer<float>;
template class TreeReducer<double>;

}  // namespace kan::parallel
