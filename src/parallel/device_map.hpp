// Which rank runs where: rank -> node -> device, gathered once and shown in the banner.
//
// A node is the ranks that share memory (Launch). A device is told from others by its
// node and its PCI bus id, where the backend knows one: a launcher that shows each rank
// only its own GPU makes all of them number 0.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kan/types.hpp"
#include "parallel/launch.hpp"

namespace kan::parallel {

/// Where one rank runs. Plain data, so that it can be gathered; texts are cut to fit.
struct RankPlace {
  std::array<char, 64> host{};
  int node = 0;                  ///< lowest rank of the node
  int device = -1;               ///< number as Kokkos counts, -1: kernels run on the host
  std::array<char, 24> bus{};    ///< PCI bus id, empty where unknown
  std::array<char, 64> model{};  ///< the device's name, empty where unknown
  int threads = 1;               ///< host threads of the rank
  int cpus = 1;                  ///< CPUs that the ranks of the node may use together
};

/// Host and device of this process. Local; the device needs Kokkos started.
RankPlace this_device();
/// The same with node, threads and CPUs.
RankPlace this_place(const Launch& launch);

/// "GPU 0000:3b:00.0", "GPU 1", or "no GPU".
std::string device_text(const RankPlace& place);

/// A few lines: "rank 0-3 -> node0: GPU 0,1,2,3 (NVIDIA A100)". Neighbouring nodes of the
/// same kind are one line. places: of all ranks, in rank order; lines: at most so many.
std::string map_text(std::span<const RankPlace> places, int lines = 4);

/// Says which ranks share a device, empty where none do: allowed with MPI, and slow.
std::string sharing_note(std::span<const RankPlace> places);
/// Throws code 9 for two ranks on one device, as nccl needs one each.
void require_own_devices(std::span<const RankPlace> places);

}  // namespace kan::parallel
