// Rank groups: which ranks of a job work together, and which sleep. One job of eight
// ranks can train one model on two of them, or two models on four each.
//
// The plan is made from the node of each rank, by every rank for itself:
//   packed   a group lies on as few nodes as possible: on the first node that has room
//   for
//            all of it, else on the nodes with the most free ranks
//   spread   a group lies on as many nodes as possible, as evenly as possible: rank by
//            rank onto the node that holds the fewest of it, the emptiest first
// Groups are served in order, from the ranks that those before have left. The members of
// a group are in ascending order of their rank in the job.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"

namespace kan::parallel {

enum class Placement { packed, spread };

/// One group of a plan.
struct RankGroup {
  std::vector<int> ranks;  ///< in the job, ascending; the first is the group's rank 0
  int nodes = 1;           ///< that they lie on
};

struct GroupPlan {
  std::vector<RankGroup> groups;
  std::vector<int> idle;  ///< ranks of no group, ascending

  static constexpr int kIdle = -1;
  /// Number of the group that a rank of the job belongs to, or kIdle.
  int group_of(int rank) const;
  /// The first rank of each group.
  std::vector<int> leaders() const;
};

/// node_of: node of each rank of the job, any numbers; sizes: ranks of each group, at
/// least 1. Throws code 2, saying what there is, for more ranks than the job has, and
/// where a spread group of several ranks finds free ranks on one node only.
GroupPlan plan_groups(std::span<const int> node_of, std::span<const int> sizes,
                      Placement placement);

/// Nodes made up for trials on one machine: rank r lies on node r / ranks_per_node.
std::vector<int> emulated_nodes(int ranks, int ranks_per_node);

/// Collective over world. The communicator of this rank's group, nullptr on an idle rank.
std::unique_ptr<Communicator> split(Communicator& world, const GroupPlan& plan);

}  // namespace kan::parallel
