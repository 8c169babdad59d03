// Partition of batches into leaves and ranks. Oracles: the floor formula in 128 bits, and
// the definition of a maximal aligned subtree checked by itself.
#include "parallel/partition.hpp"

#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <string>

namespace {

using kan::parallel::Range;
using kan::parallel::Subtree;

__extension__ using Wide = __int128;

std::int64_t floor_share(std::int64_t n, std::int64_t parts, std::int64_t i) {
  return static_cast<std::int64_t>(Wide{n} * i / parts);
}

int log2_of(std::int64_t n) {
  int log = 0;
  while (n > 1) {
    n /= 2;
    ++log;
  }
  return log;
}

bool siblings(const Subtree& left, const Subtree& right) {
  return left.count == right.count && left.first % (2 * left.count) == 0 &&
         left.first + left.count == right.first;
}

TEST_CASE("shares follow the floor formula and cover everything once") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7},
                               std::int64_t{512}, std::int64_t{1000003}, huge}) {
    for (const int parts : {1, 2, 3, 7, 8, 64, 1000, 4096}) {
      std::int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const Range range = kan::parallel::share(n, parts, i);
        if (range != Range{floor_share(n, parts, i), floor_share(n, parts, i + 1)} ||
            range.begin != next || range.size() - n / parts > 1 ||
            range.size() < n / parts) {
          FAIL("share(" << n << ", " << parts << ", " << i << ")");
        }
        next = range.end;
      }
      REQUIRE(next == n);
    }
  }
}

TEST_CASE("more ranks than rows leave some ranks empty, and no rows lost") {
  int empty = 0, rows = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const Range range = kan::parallel::rank_rows(3, 8, rank);
    empty += range.empty() ? 1 : 0;
    rows += static_cast<int>(range.size());
  }
  CHECK(empty == 5);
  CHECK(rows == 3);
  CHECK(kan::parallel::rank_rows(0, 4, 2).empty());
  CHECK(kan::parallel::rank_rows(10, 3, 1) == Range{3, 6});
  CHECK(kan::parallel::leaf_rows(33, 64, 63) == Range{32, 33});
  CHECK_THROWS_AS(kan::parallel::share(4, 2, 2), kan::Error);
  CHECK_THROWS_AS(kan::parallel::share(-1, 2, 0), kan::Error);
}

TEST_CASE("number of leaves: each limit in turn") {
  using kan::parallel::leaf_count;
  CHECK(leaf_count(64, 512, 64, 2726) == 8);  // rows of the batch
  CHECK(leaf_count(64, 511, 64, 2726) == 4);  // 7 leaves would fit: not a power of two
  CHECK(leaf_count(64, 63, 64, 2726) == 1);   // less than one shard
  CHECK(leaf_count(64, 1 << 20, 64, 2726) == 64);  // max_shards
  CHECK(leaf_count(48, 1 << 20, 64, 2726) == 32);  // the power of two below
  CHECK(leaf_count(1, 1 << 20, 64, 2726) == 1);
  CHECK(leaf_count(64, 1 << 20, 64, 400'000) == 16);     // 8 Mi / 400,000 = 20
  CHECK(leaf_count(64, 1 << 20, 64, 100'000'000) == 8);  // memory never asks for fewer
  CHECK(leaf_count(64, 1 << 20, 64, 131'072) == 64);     // 8 Mi / 64, just fits
  CHECK(leaf_count(64, 1 << 20, 64, 131'073) == 32);
  CHECK_THROWS_AS(leaf_count(64, 0, 64, 1), kan::Error);
}

TEST_CASE("aligned subtrees: the documented example") {
  using Trees = std::vector<Subtree>;
  CHECK(kan::parallel::aligned_subtrees(kan::parallel::rank_leaves(8, 3, 0)) ==
        Trees{{0, 2}});
  CHECK(kan::parallel::aligned_subtrees(kan::parallel::rank_leaves(8, 3, 1)) ==
        Trees{{2, 2}, {4, 1}});
  CHECK(kan::parallel::aligned_subtrees(kan::parallel::rank_leaves(8, 3, 2)) ==
        Trees{{5, 1}, {6, 2}});
  CHECK(kan::parallel::aligned_subtrees({0, 64}) == Trees{{0, 64}});
  CHECK(kan::parallel::aligned_subtrees({3, 3}).empty());
}

TEST_CASE("aligned subtrees cover a range in order, aligned, maximal and few") {
  for (const std::int64_t leaves : {1, 2, 4, 8, 64, 512}) {
    for (int ranks = 1; ranks <= leaves; ++ranks) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Range range = kan::parallel::rank_leaves(leaves, ranks, rank);
        const auto trees = kan::parallel::aligned_subtrees(range);
        bool good = !trees.empty() && range.begin == next;
        for (std::size_t j = 0; j < trees.size(); ++j) {
          const auto& tree = trees[j];
          good = good && tree.first == next && (tree.count & (tree.count - 1)) == 0 &&
                 tree.first % tree.count == 0;
          good = good && (j == 0 || !siblings(trees[j - 1], tree));
          next += tree.count;
        }
        good = good && next == range.end;
        if (leaves >= 4) {
          good = good && static_cast<int>(trees.size()) <= 2 * log2_of(leaves) - 2;
        }
        if (!good) FAIL("leaves " << leaves << ", rank " << rank << " of " << ranks);
      }
      REQUIRE(next == leaves);
    }
  }
}

TEST_CASE("streaming merges leave exactly the aligned subtrees on the stack") {
  for (std::int64_t begin = 0; begin < 40; ++begin) {
    for (std::int64_t end = begin; end <= 40; ++end) {
      std::vector<Subtree> stack;
      for (std::int64_t s = begin; s < end; ++s) {
        stack.push_back({s, 1});
        for (int m = kan::parallel::merges_after(begin, s); m > 0; --m) {
          const Subtree right = stack.back();
          stack.pop_back();
          if (stack.empty() || !siblings(stack.back(), right)) {
            FAIL("merge of strangers after leaf " << s << " from " << begin);
          }
          stack.back().count *= 2;
        }
      }
      REQUIRE(stack == kan::parallel::aligned_subtrees({begin, end}));
    }
  }
}

}  // namespace
