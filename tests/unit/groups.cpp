// Plans of rank groups for made-up jobs. What any plan must have (every rank once, sizes
// as asked, members ascending) and what each placement promises (fewest nodes; most
// nodes, evenly) are checked against counts found by trying; some plans are written out.
#include "parallel/groups.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kan/error.hpp"

using namespace kan;
using namespace kan::parallel;

namespace {

using Ranks = std::vector<int>;

std::vector<Ranks> members(const GroupPlan& plan) {
  std::vector<Ranks> all;
  for (const RankGroup& group : plan.groups) all.push_back(group.ranks);
  return all;
}

GroupPlan plan(const Ranks& node_of, const Ranks& sizes, Placement placement) {
  return plan_groups(node_of, sizes, placement);
}

std::string refused(const Ranks& node_of, const Ranks& sizes, Placement placement) {
  try {
    plan(node_of, sizes, placement);
  } catch (const Error& error) {
    CHECK(error.code() == Code::usage);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Ranks of a group on each of its nodes.
std::map<int, int> by_node(const RankGroup& group, const Ranks& node_of) {
  std::map<int, int> count;
  for (const int rank : group.ranks) ++count[node_of[std::size_t(rank)]];
  return count;
}

/// The fewest nodes that hold n ranks: the largest first.
int fewest_nodes(std::map<int, int> free, int n) {
  std::vector<int> sizes;
  for (const auto& [node, count] : free) sizes.push_back(count);
  std::sort(sizes.rbegin(), sizes.rend());
  int nodes = 0;
  for (; n > 0; ++nodes) n -= sizes[std::size_t(nodes)];
  return nodes;
}

/// The least number of ranks on the fullest node of a spread group of n: by raising a
/// ceiling until n ranks fit below it.
int lowest_ceiling(const std::map<int, int>& free, int n) {
  for (int ceiling = 1;; ++ceiling) {
    int room = 0;
    for (const auto& [node, count] : free) room += std::min(count, ceiling);
    if (room >= n) return ceiling;
  }
}

void check_promises(const GroupPlan& plan, const Ranks& node_of, const Ranks& sizes,
                    Placement placement) {
  std::map<int, int> free;
  for (const int node : node_of) ++free[node];
  std::set<int> seen(plan.idle.begin(), plan.idle.end());
  std::size_t ranks = plan.idle.size();
  REQUIRE(plan.groups.size() == sizes.size());
  for (std::size_t g = 0; g < sizes.size(); ++g) {
    const RankGroup& group = plan.groups[g];
    REQUIRE(int(group.ranks.size()) == sizes[g]);
    CHECK(std::is_sorted(group.ranks.begin(), group.ranks.end()));
    const std::map<int, int> used = by_node(group, node_of);
    CHECK(group.nodes == int(used.size()));
    std::erase_if(free, [](const auto& entry) { return entry.second == 0; });
    if (placement == Placement::packed) {
      CHECK(group.nodes == fewest_nodes(free, sizes[g]));
    } else {
      CHECK(group.nodes == std::min(sizes[g], int(free.size())));
      int most = 0;
      for (const auto& [node, count] : used) most = std::max(most, count);
      CHECK(most == lowest_ceiling(free, sizes[g]));
    }
    for (const auto& [node, count] : used) free[node] -= count;
    for (const int rank : group.ranks) CHECK(plan.group_of(rank) == int(g));
    CHECK(plan.leaders()[g] == group.ranks.front());
    seen.insert(group.ranks.begin(), group.ranks.end());
    ranks += group.ranks.size();
  }
  CHECK(seen.size() == node_of.size());
  CHECK(ranks == node_of.size());
  CHECK(std::is_sorted(plan.idle.begin(), plan.idle.end()));
  for (const int rank : plan.idle) CHECK(plan.group_of(rank) == GroupPlan::kIdle);
}

}  // namespace

TEST_CASE("plans written out") {
  const Ranks two_nodes{0, 0, 0, 0, 1, 1, 1, 1};
  CHECK(members(plan(two_nodes, {2}, Placement::packed)) == std::vector<Ranks>{{0, 1}});
  CHECK(members(plan(two_nodes, {2}, Placement::spread)) == std::vector<Ranks>{{0, 4}});
  CHECK(members(plan(two_nodes, {4}, Placement::packed)) ==
        std::vector<Ranks>{{0, 1, 2, 3}});
  CHECK(members(plan(two_nodes, {4}, Placement::spread)) ==
        std::vector<Ranks>{{0, 1, 4, 5}});
  CHECK(members(plan(two_nodes, {8}, Placement::packed)) ==
        members(plan(two_nodes, {8}, Placement::spread)));
  CHECK(members(plan(two_nodes, {4, 4}, Placement::packed)) ==
        std::vector<Ranks>{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(members(plan(two_nodes, {4, 4}, Placement::spread)) ==
        std::vector<Ranks>{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(plan(two_nodes, {2}, Placement::packed).idle == Ranks{2, 3, 4, 5, 6, 7});

  const Ranks four_nodes{0, 0, 1, 1, 2, 2, 3, 3};
  CHECK(members(plan(four_nodes, {4}, Placement::spread)) ==
        std::vector<Ranks>{{0, 2, 4, 6}});
  CHECK(members(plan(four_nodes, {2, 2}, Placement::spread)) ==
        std::vector<Ranks>{{0, 2}, {4, 6}});
  CHECK(members(plan(four_nodes, {3, 3}, Placement::packed)) ==
        std::vector<Ranks>{{0, 1, 2}, {3, 4, 5}});

  const Ranks by_turns{0, 1, 0, 1};  // a launcher that deals ranks out over nodes
  CHECK(members(plan(by_turns, {2}, Placement::packed)) == std::vector<Ranks>{{0, 2}});
  CHECK(members(plan(by_turns, {2}, Placement::spread)) == std::vector<Ranks>{{0, 1}});
}

TEST_CASE("uneven nodes") {
  const Ranks uneven{5, 7, 7, 7, 2, 2};  // numbers of nodes mean nothing
  CHECK(members(plan(uneven, {1}, Placement::packed)) == std::vector<Ranks>{{0}});
  CHECK(members(plan(uneven, {2}, Placement::packed)) == std::vector<Ranks>{{1, 2}});
  CHECK(members(plan(uneven, {4}, Placement::packed)) ==
        std::vector<Ranks>{{0, 1, 2, 3}});
  CHECK(members(plan(uneven, {5}, Placement::spread)) ==
        std::vector<Ranks>{{0, 1, 2, 4, 5}});
  CHECK(members(plan(uneven, {2}, Placement::spread)) == std::vector<Ranks>{{1, 4}});
}

TEST_CASE("promises hold for random jobs") {
  std::mt19937 random(1);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int spread_plans = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int ranks = draw(1, 24), nodes = draw(1, 6);
    Ranks node_of;
    for (int r = 0; r < ranks; ++r) node_of.push_back(draw(0, nodes - 1));
    Ranks sizes;
    for (int left = ranks; left > 0 && int(sizes.size()) < 4;) {
      sizes.push_back(draw(1, left));
      left -= sizes.back();
    }
    const std::string what = [&] {
      std::string text = "nodes";
      for (const int node : node_of) text += " " + std::to_string(node);
      text += ", groups";
      for (const int size : sizes) text += " " + std::to_string(size);
      return text;
    }();
    INFO(what);
    check_promises(plan(node_of, sizes, Placement::packed), node_of, sizes,
                   Placement::packed);
    if (refused(node_of, sizes, Placement::spread) == "accepted") {
      check_promises(plan(node_of, sizes, Placement::spread), node_of, sizes,
                     Placement::spread);
      ++spread_plans;
    }
  }
  CHECK(spread_plans > 500);
}

TEST_CASE("made-up nodes") {
  CHECK(emulated_nodes(5, 2) == Ranks{0, 0, 1, 1, 2});
  CHECK(members(plan(emulated_nodes(4, 2), {2}, Placement::spread)) ==
        std::vector<Ranks>{{0, 2}});
  CHECK(plan(emulated_nodes(4, 1), {4}, Placement::packed).groups[0].nodes == 4);
}

TEST_CASE("what cannot be had is refused with what there is") {
  const Ranks node_of{0, 0, 1};
  const std::string many = refused(node_of, {4}, Placement::packed);
  CHECK(contains(many,
                 "parallel/ranks: 4 ranks asked for, the job has 3 ranks on 2 nodes"));
  const std::string groups = refused(node_of, {2, 2}, Placement::packed);
  CHECK(contains(groups, "2 groups with 4 ranks asked for"));
  const std::string one = refused({0, 0}, {2}, Placement::spread);
  CHECK(contains(one,
                 "parallel/placement = spread: 2 ranks of a group need at least 2 "
                 "nodes; the job has 2 ranks on 1 node:"));
  // The first group leaves free ranks on one node only.
  CHECK(contains(refused({0, 0, 0, 1}, {2, 2}, Placement::spread),
                 "some used by other groups"));
  CHECK(refused({0, 0}, {1}, Placement::spread) == "accepted");
}
