// Free ranks are kept node by node; a group takes ranks from the front of a node's list.
#include "parallel/groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "kan/error.hpp"
#include "parallel/rank_list.hpp"

namespace kan::parallel {
namespace {

struct Node {
  std::vector<int> free;  ///< ranks, ascending
  int taken = 0;          ///< by the group that is being made
};

/// The nodes in the order of their first ranks.
std::vector<Node> nodes_of(std::span<const int> node_of) {
  std::map<int, std::size_t> place;
  std::vector<Node> nodes;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const auto [at, fresh] = place.try_emplace(node_of[rank], nodes.size());
    if (fresh) nodes.emplace_back();
    nodes[at->second].free.push_back(static_cast<int>(rank));
  }
  return nodes;
}

/// The first node with the most free ranks.
Node& roomiest(std::vector<Node>& nodes) {
  return *std::max_element(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    return a.free.size() < b.free.size();
  });
}

/// Where the next ranks of a packed group come from: `wanted` are still missing.
Node& next_packed(std::vector<Node>& nodes, std::size_t wanted) {
  const auto whole = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return node.free.size() >= wanted;
  });
  return whole != nodes.end() ? *whole : roomiest(nodes);
}

/// Where the next rank of a spread group comes from.
Node& next_spread(std::vector<Node>& nodes) {
  return *std::min_element(nodes.begin(), nodes.end(), [](const Node& a, const Node& b) {
    if (a.free.empty() || b.free.empty()) return a.free.size() > b.free.size();
    if (a.taken != b.taken) return a.taken < b.taken;
    return a.free.size() > b.free.size();
  });
}

void take(Node& node, std::size_t count, std::vector<int>& ranks) {
  const auto end = node.free.begin() + static_cast<std::ptrdiff_t>(count);
  ranks.insert(ranks.end(), node.free.begin(), end);
  node.free.erase(node.free.begin(), end);
  node.taken += static_cast<int>(count);
}

RankGroup make_group(std::vector<Node>& nodes, std::size_t size, Placement placement) {
  RankGroup group;
  for (Node& node : nodes) node.taken = 0;
  while (group.ranks.size() < size) {
    const std::size_t wanted = size - group.ranks.size();
    if (placement == Placement::packed) {
      Node& node = next_packed(nodes, wanted);
      take(node, std::min(wanted, node.free.size()), group.ranks);
    } else {
      take(next_spread(nodes), 1, group.ranks);
    }
  }
  std::sort(group.ranks.begin(), group.ranks.end());
  group.nodes = static_cast<int>(std::count_if(
      nodes.begin(), nodes.end(), [](const Node& node) { return node.taken > 0; }));
  return group;
}

}  // namespace

int GroupPlan::group_of(int rank) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<int>& ranks = groups[g].ranks;
    if (std::binary_search(ranks.begin(), ranks.end(), rank)) return static_cast<int>(g);
  }
  return kIdle;
}

std::vector<int> GroupPlan::leaders() const {
  std::vector<int> first;
  for (const RankGroup& group : groups) first.push_back(group.ranks.front());
  return first;
}

GroupPlan plan_groups(std::span<const int> node_of, std::span<const int> sizes,
                      Placement placement) {
  std::vector<Node> nodes = nodes_of(node_of);
  KAN_REQUIRE(std::all_of(sizes.begin(), sizes.end(), [](int n) { return n >= 1; }),
              "plan_groups: a group has at least one rank");
  const auto asked = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::string available = count_of(std::ssize(node_of), "rank") + " on " +
                                count_of(std::ssize(nodes), "node");
  if (asked > std::ssize(node_of)) {
    throw Error(Code::usage,
                "parallel/ranks: " +
                    (sizes.size() == 1 ? count_of(asked, "rank") + " asked for"
                                       : std::to_string(sizes.size()) + " groups with " +
                                             count_of(asked, "rank") + " asked for") +
                    ", the job has " + available + ": start more, or lower it");
  }
  GroupPlan plan;
  for (const int size : sizes) {
    plan.groups.push_back(make_group(nodes, static_cast<std::size_t>(size), placement));
    if (placement == Placement::spread && size > 1 && plan.groups.back().nodes == 1) {
      throw Error(Code::usage,
                  "parallel/placement = spread: " + count_of(size, "rank") +
                      " of a group need at least 2 nodes; the job has " + available +
                      (plan.groups.size() == 1 ? "" : ", some used by other groups") +
                      ": start it on more nodes, or set placement = packed");
    }
  }
  for (const Node& node : nodes) {
    plan.idle.insert(plan.idle.end(), node.free.begin(), node.free.end());
  }
  std::sort(plan.idle.begin(), plan.idle.end());
  return plan;
}

std::vector<int> emulated_nodes(int ranks, int ranks_per_node) {
  KAN_REQUIRE(ranks_per_node >= 1, "emulated_nodes: at least one rank on a node");
  std::vector<int> node_of(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    node_of[static_cast<std::size_t>(rank)] = rank / ranks_per_node;
  }
  return node_of;
}

std::unique_ptr<Communicator> split(Communicator& world, const GroupPlan& plan) {
  return world.split(plan.group_of(world.rank()), world.rank());
}

}  // namespace kan::parallel
