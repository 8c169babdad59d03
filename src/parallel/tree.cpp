// Messages and additions of the fixed tree. Lanes stand in the margins around the partial
// sums, so that a message is sent from where the sums are; only segments are copied
// together first. A rank's block, for P not a power of two:
//   [non-finite count | flags | losses of its subtrees] in 64-bit words, then of each
//   subtree the elements (all, or those of the receiver's segment)
#include "parallel/tree.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLaneHeader = 2;         // words before the losses
constexpr std::size_t kMarginBytes = 512;      // room for the lane of 62 subtrees
constexpr std::size_t kSegmentUnit = 16;       // elements
constexpr std::size_t kGatherBytes = 1 << 16;  // of all ranks; above, segments
constexpr std::int64_t kBlock = 2048;          // elements added at a time, for the cache
constexpr std::size_t kThreaded = 1 << 14;     // below this, starting threads costs more

std::uint64_t pack(const StopFlags& stop) {
  return (stop.signal_stop ? 1u : 0u) | (stop.signal_checkpoint ? 2u : 0u) |
         (stop.stop_now ? 4u : 0u) | (stop.output_now ? 8u : 0u) |
         (stop.walltime ? 16u : 0u);
}

StopFlags unpack(std::uint64_t bits) {
  return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0,
          (bits & 16) != 0};
}

std::size_t checked(std::int64_t parameters) {
  KAN_REQUIRE(parameters >= 0, "TreeReducer: negative number of parameters");
  return static_cast<std::size_t>(parameters);
}

}  // namespace

template <class T>
TreeReducer<T>::TreeReducer(Communicator& communicator, std::int64_t parameters,
                            std::int64_t leaves)
    : communicator_(communicator),
      parameters_(checked(parameters)),
      pairwise_(communicator) {
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
    subtrees_.push_back(subtrees.size());
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
  constexpr std::size_t margin = kMarginBytes / sizeof(T);
  const std::size_t length = own_.size() * parameters_;
  const MessageView1<T> host("kan::TreeReducer::partials", margin + length + margin);
  staged_ =
      Kokkos::subview(host, std::pair<std::size_t, std::size_t>(margin, margin + length));
  values_ = staged_.data();
  if constexpr (kHostExecution) {
    partials_ = staged_;
  } else {
    partials_ = View1<T>("kan::TreeReducer::partials_d", length);
  }
  nodes_.resize(node);
  losses_.resize(node);
  method_ = std::has_single_bit(static_cast<unsigned>(ranks)) ? Method::pairwise
            : node * parameters_ * sizeof(T) <= kGatherBytes  ? Method::gather
                                                              : Method::segments;
  if (method_ != Method::pairwise) plan_messages();
}

template <class T>
View1<T> TreeReducer<T>::gradient() const {
  return Kokkos::subview(partials_, std::pair<std::size_t, std::size_t>(0, parameters_));
}

/// Elements that the lane of this many subtrees takes.
template <class T>
std::size_t TreeReducer<T>::lane_length(std::size_t subtrees) {
  return (kLaneHeader + subtrees) * kWord / sizeof(T);
}

/// Lengths of segments and blocks, the same ones in every step.
template <class T>
void TreeReducer<T>::plan_messages() {
  const std::size_t ranks = subtrees_.size(), n = parameters_, own = own_.size();
  const std::size_t width =
      (n + ranks * kSegmentUnit - 1) / (ranks * kSegmentUnit) * kSegmentUnit;
  const bool gather = method_ == Method::gather;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t begin = std::min(rank * width, n);
    segments_.push_back(gather ? n : std::min(width, n - begin));
    sent_lengths_.push_back(lane_length(own) + own * segments_.back());
  }
  length_ = segments_[static_cast<std::size_t>(communicator_.rank())];
  for (const std::size_t subtrees : subtrees_)
    received_lengths_.push_back(lane_length(subtrees) + subtrees * length_);
  const auto sum = [](const std::vector<std::size_t>& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  };
  if (!gather) sent_.resize(sum(sent_lengths_));
  received_.resize(sum(received_lengths_));
}

/// Sends this rank's partial sums with their lane, receives the others' into received_.
template <class T>
void TreeReducer<T>::exchange(const LaneWords& lane, std::span<const double> losses) {
  const std::size_t own = own_.size(), header = lane_length(own);
  T* const block = values_ - header;
  auto* word = reinterpret_cast<std::byte*>(block);
  const auto put = [&word](const auto& value) {
    static_assert(sizeof value == kWord);
    std::memcpy(word, &value, kWord);
    word += kWord;
  };
  put(lane.count);
  put(lane.flags);
  for (const double loss : losses) put(std::isfinite(loss) ? loss : 0.0);

  if (method_ == Method::gather) {
    communicator_.allgatherv(std::span<const T>(block, header + own * parameters_),
                             std::span<T>(received_), received_lengths_);
    return;
  }
  T* to = sent_.data();
  std::size_t begin = 0;
  for (const std::size_t length : segments_) {
    to = std::copy_n(block, header, to);
    for (std::size_t j = 0; j < own; ++j)
      to = std::copy_n(values_ + j * parameters_ + begin, length, to);
    begin += length;
  }
  communicator_.alltoallv(std::span<const T>(sent_), sent_lengths_,
                          std::span<T>(received_), received_lengths_);
}

/// Finds the elements of each subtree in the blocks received, and adds up their lanes.
template <class T>
LaneOut TreeReducer<T>::read_blocks() {
  LaneOut out;
  std::uint64_t flags = 0;
  std::size_t node = 0;
  T* block = received_.data();
  for (const std::size_t subtrees : subtrees_) {
    const auto word = [block](std::size_t index, auto value) {
      std::memcpy(&value, reinterpret_cast<const std::byte*>(block) + index * kWord,
                  kWord);
      return value;
    };
    out.nonfinite += word(0, std::int64_t{0});
    flags |= word(1, std::uint64_t{0});
    T* elements = block + lane_length(subtrees);
    for (std::size_t j = 0; j < subtrees; ++j, ++node, elements += length_) {
      losses_[node] = word(kLaneHeader + j, 0.0);
      nodes_[node] = elements;
    }
    block = elements;
  }
  for (const Merge& merge : merges_) losses_[merge.into] += losses_[merge.from];
  out.loss_sum = losses_[0];
  out.stop = unpack(flags);
  return out;
}

/// The additions of the tree, for each element received; the sum ends in node 0.
template <class T>
void TreeReducer<T>::add_up() {
  const auto* merges = merges_.data();
  const std::size_t count = merges_.size();
  T* const* nodes = nodes_.data();
  const auto length = static_cast<std::int64_t>(length_);
  const auto block = [=](const std::int64_t b) {
    const std::int64_t first = b * kBlock, last = std::min(first + kBlock, length);
    for (std::size_t m = 0; m < count; ++m) {
      T* const into = nodes[merges[m].into];
      const T* const from = nodes[merges[m].from];
      for (std::int64_t i = first; i < last; ++i) into[i] += from[i];
    }
  };
  const std::int64_t blocks = (length + kBlock - 1) / kBlock;
  if (length_ < kThreaded) {
    for (std::int64_t b = 0; b < blocks; ++b) block(b);
    return;
  }
  const HostExec host;
  Kokkos::parallel_for(label("kan::TreeReducer::add_up"),
                       Kokkos::RangePolicy<HostExec>(host, 0, blocks), block);
  host.fence(label("kan::TreeReducer: subtrees are added up"));
}

template <class T>
LaneOut TreeReducer<T>::reduce(const Exec& exec, std::span<const double> losses,
                               const LaneIn& in) {
  KAN_REQUIRE(losses.size() == own_.size(), "TreeReducer: one loss a subtree");
  const auto bad = std::count_if(losses.begin(), losses.end(),
                                 [](double loss) { return !std::isfinite(loss); });
  LaneIn mine = in;
  mine.loss_sum = 0;
  mine.nonfinite = std::max<std::int64_t>(mine.nonfinite, bad);
  mine = sanitized<double>(mine, communicator_.rank());
  LaneWords lane{std::isfinite(losses[0]) ? losses[0] : 0.0, mine.nonfinite,
                 pack(mine.stop)};
  if (communicator_.size() == 1) return {lane.loss, lane.count, mine.stop};

  if constexpr (!kHostExecution) Kokkos::deep_copy(exec, staged_, partials_);
  exec.fence(label("kan::TreeReducer: partial sums are complete"));
  LaneOut out;
  if (method_ == Method::pairwise) {
    pairwise_.sum(std::span<T>(values_, parameters_), lane);
    out = {lane.loss, lane.count, unpack(lane.flags)};
  } else {
    exchange(lane, losses);
    out = read_blocks();
    add_up();
    if (method_ == Method::gather)
      std::copy_n(nodes_[0], parameters_, values_);
    else
      communicator_.allgatherv(std::span<const T>(nodes_[0], length_),
                               std::span<T>(values_, parameters_), segments_);
  }
  if constexpr (!kHostExecution) {
    const std::pair<std::size_t, std::size_t> root(0, parameters_);
    Kokkos::deep_copy(exec, gradient(), Kokkos::subview(staged_, root));
    exec.fence(label("kan::TreeReducer: sum is on the device"));
  }
  return out;
}

template class TreeReducer<float>;
template class TreeReducer<double>;

}  // namespace kan::parallel
