// Ranks are grouped by node; what a node holds is put into words, and neighbouring nodes
// of the same words and number of ranks share a line. Two ranks share a device where host
// and bus id (or, where that is unknown, host and number) are the same.
#include "parallel/device_map.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

template <std::size_t N>
void put(std::array<char, N>& to, std::string_view text) {
  to.fill('\0');
  text.copy(to.data(), N - 1);
}

/// What a device is known by on its host.
std::string identity(const RankPlace& place) {
  return place.bus[0] != '\0' ? place.bus.data() : std::to_string(place.device);
}

/// The first two ranks on one device.
std::optional<std::pair<std::size_t, std::size_t>> sharing(
    std::span<const RankPlace> places) {
  std::map<std::pair<std::string, std::string>, std::size_t> seen;
  for (std::size_t r = 0; r < places.size(); ++r) {
    if (places[r].device < 0) continue;
    const auto [first, is_new] =
        seen.try_emplace({places[r].host.data(), identity(places[r])}, r);
    if (!is_new) return std::pair(first->second, r);
  }
  return {};
}

std::string sharing_text(std::span<const RankPlace> places, std::size_t a,
                         std::size_t b) {
  return "ranks " + std::to_string(a) + " and " + std::to_string(b) + " are both on " +
         device_text(places[b]) + " of " + places[b].host.data();
}

/// "0-3, 8" of 0, 1, 2, 3, 8; long lists are cut.
std::string ranges(const std::vector<int>& ranks) {
  constexpr int kShown = 6;
  std::string text;
  int shown = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (shown++ == kShown) return text + ", ...";
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

struct Node {
  std::string host;
  std::vector<int> ranks;
  std::string contents;  ///< devices, or threads and CPUs
};

/// Numbers of the devices in the order of the ranks: Kokkos's own, or, where a launcher
/// shows each rank its own device only, their order on the bus.
std::vector<int> numbers(std::span<const RankPlace> places,
                         const std::vector<int>& ranks) {
  std::set<int> by_number;
  std::set<std::string> by_identity;
  for (const int r : ranks) {
    by_number.insert(places[r].device);
    by_identity.insert(identity(places[r]));
  }
  std::vector<int> result;
  for (const int r : ranks) {
    const auto at = by_identity.find(identity(places[r]));
    result.push_back(by_number.size() >= by_identity.size()
                         ? places[r].device
                         : int(std::distance(by_identity.begin(), at)));
  }
  return result;
}

std::string contents_of(std::span<const RankPlace> places,
                        const std::vector<int>& ranks) {
  const RankPlace& first = places[ranks.front()];
  if (first.device < 0) {
    const auto [least, most] = std::minmax_element(
        ranks.begin(), ranks.end(),
        [&](int a, int b) { return places[a].threads < places[b].threads; });
    std::string threads = std::to_string(places[*least].threads);
    if (places[*most].threads > places[*least].threads)
      threads += " to " + std::to_string(places[*most].threads);
    return threads + " thread" + (threads == "1" ? "" : "s") + " per rank on " +
           std::to_string(first.cpus) + " CPU" + (first.cpus == 1 ? "" : "s");
  }
  std::string text = "GPU ", models;
  std::set<std::string> seen;
  for (const int number : numbers(places, ranks))
    text += (text.back() == ' ' ? "" : ",") + std::to_string(number);
  for (const int r : ranks) {
    const std::string model = places[r].model.data();
    if (!model.empty() && seen.insert(model).second)
      models += (models.empty() ? "" : ", ") + model;
  }
  return models.empty() ? text : text + " (" + models + ")";
}

std::vector<Node> nodes_of(std::span<const RankPlace> places) {
  std::map<int, Node> nodes;
  for (std::size_t r = 0; r < places.size(); ++r) {
    Node& node = nodes[places[r].node];
    node.host = places[r].host.data();
    node.ranks.push_back(int(r));
  }
  std::vector<Node> list;
  for (auto& [lead, node] : nodes) {
    node.contents = contents_of(places, node.ranks);
    list.push_back(std::move(node));
  }
  return list;
}

/// One line for nodes of the same kind.
std::string line_of(std::span<const Node> same) {
  std::vector<int> ranks;
  for (const Node& node : same) {
    ranks.insert(ranks.end(), node.ranks.begin(), node.ranks.end());
  }
  std::sort(ranks.begin(), ranks.end());
  std::string text = "rank " + ranges(ranks) + " -> " + same.front().host;
  if (same.size() > 1) {
    text += (same.size() == 2 ? ", " : " ... ") + same.back().host + " (" +
            std::to_string(same.size()) + " nodes, " +
            std::to_string(same.front().ranks.size()) + " each" +
            (same.front().ranks.back() > same[1].ranks.front() ? ", dealt in turn" : "") +
            ")";
  }
  return text + ": " + same.front().contents;
}

}  // namespace

RankPlace this_device() {
  RankPlace place;
  std::array<char, 256> host{};
  const bool named = ::gethostname(host.data(), host.size() - 1) == 0;
  put(place.host, named ? host.data() : "unknown");
  if (kHostExecution || !Kokkos::is_initialized()) return place;
  place.device = Kokkos::device_id();
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
#ifdef KOKKOS_ENABLE_CUDA
  const auto& device = Exec().cuda_device_prop();
#else
  const auto& device = Exec::hip_device_prop();
#endif
  std::array<char, 24> bus{};
  std::snprintf(bus.data(), bus.size(), "%04x:%02x:%02x.0", unsigned(device.pciDomainID),
                unsigned(device.pciBusID), unsigned(device.pciDeviceID));
  place.bus = bus;
  put(place.model, device.name);
#endif
  return place;
}

RankPlace this_place(const Launch& launch) {
  RankPlace place = this_device();
  place.node = launch.node_lead();
  place.threads = launch.threads();
  place.cpus = launch.cpus().node;
  return place;
}

std::string device_text(const RankPlace& place) {
  return place.device < 0 ? "no GPU" : "GPU " + identity(place);
}

std::string map_text(std::span<const RankPlace> places, int lines) {
  const std::vector<Node> nodes = nodes_of(places);
  std::string text;
  for (std::size_t i = 0; i < nodes.size(); --lines) {
    if (lines == 0)
      return text + "\n... " + std::to_string(nodes.size() - i) + " nodes more";
    std::size_t end = i + 1;
    while (end < nodes.size() && nodes[end].contents == nodes[i].contents &&
           nodes[end].ranks.size() == nodes[i].ranks.size())
      ++end;
    text += (i == 0 ? "" : "\n") + line_of(std::span(nodes).subspan(i, end - i));
    i = end;
  }
  return text;
}

std::string sharing_note(std::span<const RankPlace> places) {
  const auto pair = sharing(places);
  if (!pair) return {};
  return sharing_text(places, pair->first, pair->second) +
         ", so they take turns on it: start one rank per GPU (srun --gpus-per-task=1)";
}

void require_own_devices(std::span<const RankPlace> places) {
  const auto pair = sharing(places);
  if (!pair) return;
  throw Error(
      Code::launch,
      sharing_text(places, pair->first, pair->second) +
          ", and NCCL takes one rank per GPU: start fewer ranks, or ask the batch "
          "system for one GPU each (srun --gpus-per-task=1); parallel/backend = "
          "mpi lets ranks share a GPU");
}

}  // namespace kan::parallel
