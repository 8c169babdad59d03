// Who works on which rows: pure functions of the numbers given, the same on every rank.
//
// Plain mode: the b rows of a batch are cut into P contiguous ranges, one a rank.
// Reproducible mode: they are cut into V leaves (shards) whatever P is, rank r owns a
// contiguous range of leaves, and sums over leaves follow one binary tree over [0, V).
// The part of the tree that a rank can add up alone are the maximal aligned subtrees of
// its range: blocks of 2^k leaves that start at a multiple of 2^k. Example, V = 8 and P =
// 3:
//   rank 0 [0,2): {0,1}      rank 1 [2,5): {2,3} {4}      rank 2 [5,8): {5} {6,7}
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kan/error.hpp"

namespace kan::parallel {

/// Positions begin, ..., end - 1.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

/// floor(n i / parts) for 0 <= i <= parts < 2^31, n >= 0, without overflow.
inline std::int64_t share_begin(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return n / parts * i + n % parts * i / parts;
}

/// Part i of n things cut into contiguous parts whose sizes differ by at most one:
/// [floor(n i / parts), floor(n (i+1) / parts)).
inline Range share(std::int64_t n, std::int64_t parts, std::int64_t i) {
  KAN_REQUIRE(n >= 0 && parts >= 1 && i >= 0 && i < parts, "share: part out of range");
  return {share_begin(n, parts, i), share_begin(n, parts, i + 1)};
}

/// Plain mode: rows of a batch of b that rank r of P works on; may be empty.
inline Range rank_rows(std::int64_t b, int P, int r) { return share(b, P, r); }

/// Rows of leaf s of V in a batch of b rows (a short last batch too); may be empty.
inline Range leaf_rows(std::int64_t b, std::int64_t V, std::int64_t s) {
  return share(b, V, s);
}

/// Leaves of rank r of P; empty for some ranks where P > V.
inline Range rank_leaves(std::int64_t V, int P, int r) { return share(V, P, r); }

/// Number of leaves V: the largest power of two not above max_shards, batch / shard_rows
/// and max(8, 64 MiB / (8 parameters)), at least 1. batch: nominal rows of an update over
/// all ranks; all arguments positive. The last term bounds the memory of leaf sums.
inline std::int64_t leaf_count(std::int64_t max_shards, std::int64_t batch,
                               std::int64_t shard_rows, std::int64_t parameters) {
  KAN_REQUIRE(max_shards >= 1 && batch >= 1 && shard_rows >= 1 && parameters >= 1,
              "leaf_count: arguments must be positive");
  constexpr std::int64_t kLeafElements = (std::int64_t{64} << 20) / 8;
  const std::int64_t limit =
      std::min({max_shards, batch / shard_rows,
                std::max<std::int64_t>(8, kLeafElements / parameters)});
  std::int64_t leaves = 1;
  while (leaves <= limit / 2) leaves *= 2;
  return leaves;
}

/// Leaves first, ..., first + count - 1; count a power of two that divides first.
struct Subtree {
  std::int64_t first = 0, count = 1;
  bool operator==(const Subtree&) const = default;
};

/// The maximal aligned subtrees that make up a range of leaves, in order: at most
/// 2 log2(V) - 2 of them for a part of [0, V), V >= 4.
inline std::vector<Subtree> aligned_subtrees(const Range& leaves) {
  std::vector<Subtree> found;
  for (std::int64_t first = leaves.begin; first < leaves.end;) {
    std::int64_t count = 1;
    while (first % (2 * count) == 0 && first + 2 * count <= leaves.end) count *= 2;
    found.push_back({first, count});
    first += count;
  }
  return found;
}

/// How a range that begins at leaf `begin` is summed in streaming order: after leaf s has
/// been pushed on a stack of partial sums, this many times the top entry is added to the
/// one below it. What remains at the end of the range are its aligned subtrees.
inline int merges_after(std::int64_t begin, std::int64_t s) {
  int merges = 0;
  for (std::int64_t count = 2; (s + 1) % count == 0 && s + 1 - count >= begin;
       count *= 2) {
    ++merges;
  }
  return merges;
}

}  // namespace kan::parallel
