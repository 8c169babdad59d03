// What ranks are compared in at the start: who differs and both values are found,
// whichever ranks differ; a file that one rank runs from another copy is told apart.
#include "parallel/agreement.hpp"

#include <catch2/catch_test_macros.hpp>

#include "mpi/agree.hpp"

using namespace kan::parallel;

TEST_CASE("ranks that agree") {
  const auto world = make_communicator();
  CHECK(!difference(*world, {"name", "value", "of " + std::to_string(world->rank())}));
  CHECK(differences(*world, {{"a", "1"}, {"b", ""}, cpu_fact()}).empty());
}

TEST_CASE("one rank differs") {
  const auto world = make_communicator();
  for (int odd = 1; odd < world->size(); ++odd) {
    const bool me = world->rank() == odd;
    const auto found =
        differences(*world, {{"first", "same"},
                             {"second", me ? "theirs" : "ours", me ? "there" : "here"},
                             {"third", "same"},
                             {"fourth", me ? "" : "long text"}});
    REQUIRE(found.size() == 2);
    CHECK(found[0].ranks == std::vector<int>{odd});
    CHECK(found[0].text() == "second: rank " + std::to_string(odd) + " of " +
                                 std::to_string(world->size()) +
                                 " has theirs (there), rank 0 has ours (here)");
    CHECK(found[1].name == "fourth");
    CHECK(found[1].other.value.empty());
    CHECK(found[1].first.value == "long text");
  }
}

TEST_CASE("rank 0 differs from all others") {
  const auto world = make_communicator();
  const auto found = difference(*world, {"it", world->rank() == 0 ? "a" : "b"});
  if (world->size() == 1) {
    CHECK(!found);
    return;
  }
  REQUIRE(found);
  CHECK(int(found->ranks.size()) == world->size() - 1);
  CHECK(found->first.value == "a");
  CHECK(found->other.value == "b");
}

TEST_CASE("this program and this machine") {
  const auto world = make_communicator();
  // All on one node, in pairs, and each on its own: the same file.
  for (const int share : {world->size(), 2, 1}) {
    const Fact executable = executable_fact(*world, world->rank() / share);
    CHECK(executable.name == "executable");
    CHECK(executable.value.size() == 16);
    CHECK(executable.value != std::string(16, '0'));
    CHECK(executable.remark.ends_with("/test_agreement"));
    CHECK(!difference(*world, executable));
  }
  const Fact cpu = cpu_fact();
  CHECK(!cpu.value.empty());
  CHECK(!difference(*world, cpu));
}
