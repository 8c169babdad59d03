// The device map of made-up machines. Places of real launches: mpi.launch tests.
#include "parallel/device_map.hpp"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "kan/error.hpp"

namespace {

using kan::parallel::map_text;
using kan::parallel::RankPlace;
using kan::parallel::require_own_devices;
using kan::parallel::sharing_note;

struct Machine {
  int nodes = 1, ranks_per_node = 4, devices = 4;
  bool own_numbers = true;  ///< false: a launcher shows each rank one device, number 0
  bool bus = true;
  bool in_turn = false;  ///< ranks are dealt over nodes
};

std::vector<RankPlace> places(const Machine& m) {
  std::vector<RankPlace> all(static_cast<std::size_t>(m.nodes * m.ranks_per_node));
  for (int n = 0; n < m.nodes; ++n) {
    for (int i = 0; i < m.ranks_per_node; ++i) {
      const int r = m.in_turn ? i * m.nodes + n : n * m.ranks_per_node + i;
      RankPlace& place = all[static_cast<std::size_t>(r)];
      ("node" + std::to_string(n)).copy(place.host.data(), 63);
      place.node = m.in_turn ? n : n * m.ranks_per_node;
      place.threads = 8;
      place.cpus = 32;
      if (m.devices == 0) continue;
      const int device = i % m.devices;
      place.device = m.own_numbers ? device : 0;
      std::string("A100").copy(place.model.data(), 63);
      if (m.bus)
        ("0000:" + std::to_string(10 + device) + ":00.0").copy(place.bus.data(), 23);
    }
  }
  return all;
}

std::optional<std::string> refusal(const std::vector<RankPlace>& all) {
  try {
    require_own_devices(all);
  } catch (const kan::Error& error) {
    CHECK(error.code() == kan::Code::launch);
    return error.what();
  }
  return {};
}

TEST_CASE("one rank a GPU, whoever numbers them") {
  for (const bool own_numbers : {true, false}) {
    const auto all = places({.own_numbers = own_numbers});
    CHECK(map_text(all) == "rank 0-3 -> node0: GPU 0,1,2,3 (A100)");
    CHECK(sharing_note(all).empty());
    CHECK_FALSE(refusal(all));
  }
  CHECK(map_text(places({.ranks_per_node = 1, .bus = false})) ==
        "rank 0 -> node0: GPU 0 (A100)");
}

TEST_CASE("devices of one number on different nodes are not shared") {
  const auto all = places({.nodes = 3, .ranks_per_node = 2, .bus = false});
  CHECK(sharing_note(all).empty());
  CHECK_FALSE(refusal(all));
}

TEST_CASE("more ranks than devices: a note, and an error for nccl") {
  for (const bool bus : {true, false}) {
    const auto all = places({.nodes = 2, .ranks_per_node = 4, .devices = 2, .bus = bus});
    CHECK(map_text(all) ==
          "rank 0-7 -> node0, node1 (2 nodes, 4 each): GPU 0,1,0,1 (A100)");
    const std::string who = bus ? "ranks 0 and 2 are both on GPU 0000:10:00.0 of node0"
                                : "ranks 0 and 2 are both on GPU 0 of node0";
    CHECK(sharing_note(all).starts_with(who));
    const auto text = refusal(all);
    REQUIRE(text);
    CHECK(text->starts_with(who));
    CHECK(text->find("--gpus-per-task=1") != std::string::npos);
  }
}

TEST_CASE("many nodes of a kind are one line, an odd one has its own") {
  auto all = places({.nodes = 128});
  CHECK(map_text(all) ==
        "rank 0-511 -> node0 ... node127 (128 nodes, 4 each): GPU 0,1,2,3 (A100)");
  all[4 * 64].device = 3;
  std::string("0000:13:00.0").copy(all[4 * 64].bus.data(), 23);
  CHECK(map_text(all) ==
        "rank 0-255 -> node0 ... node63 (64 nodes, 4 each): GPU 0,1,2,3 (A100)\n"
        "rank 256-259 -> node64: GPU 3,1,2,3 (A100)\n"
        "rank 260-511 -> node65 ... node127 (63 nodes, 4 each): GPU 0,1,2,3 (A100)");
  CHECK(map_text(all, 1) ==
        "rank 0-255 -> node0 ... node63 (64 nodes, 4 each): GPU 0,1,2,3 (A100)\n"
        "... 64 nodes more");
  CHECK(sharing_note(all).starts_with("ranks 256 and 259 are both on GPU 0000:13:00.0"));
}

TEST_CASE("ranks dealt over nodes") {
  CHECK(map_text(places({.nodes = 2, .ranks_per_node = 2, .in_turn = true})) ==
        "rank 0-3 -> node0, node1 (2 nodes, 2 each, dealt in turn): GPU 0,1 (A100)");
  auto one = places({.nodes = 2, .ranks_per_node = 2, .in_turn = true});
  one[3].device = 5;  // nodes of two kinds
  CHECK(map_text(one) ==
        "rank 0, 2 -> node0: GPU 0,1 (A100)\n"
        "rank 1, 3 -> node1: GPU 0,5 (A100)");
}

TEST_CASE("a host build shows threads and CPUs") {
  auto all = places({.nodes = 2, .devices = 0});
  CHECK(map_text(all) ==
        "rank 0-7 -> node0, node1 (2 nodes, 4 each): 8 threads per rank on 32 CPUs");
  CHECK(sharing_note(all).empty());
  all[1].threads = 4;
  CHECK(map_text(all) ==
        "rank 0-3 -> node0: 4 to 8 threads per rank on 32 CPUs\n"
        "rank 4-7 -> node1: 8 threads per rank on 32 CPUs");
}

TEST_CASE("this process has a host") {
  const RankPlace place = kan::parallel::this_device();
  CHECK(place.host[0] != '\0');
  CHECK((place.device < 0) == kan::kHostExecution);
  CHECK(kan::parallel::device_text(place) != "");
}

}  // namespace
