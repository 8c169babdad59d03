// Waiting for ranks that do not come: who waits learns within the deadline who is missing
// and at which step, whatever the call; who comes in time is waited for.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kan/error.hpp"
#include "parallel/communicator.hpp"
#include "parallel/digest.hpp"

using namespace kan;
using Catch::Matchers::ContainsSubstring;

namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

using Call = std::function<void(parallel::Communicator&)>;

const std::vector<std::pair<const char*, Call>>& calls() {
  static const std::vector<std::pair<const char*, Call>> all{
      {"sum",
       [](auto& c) {
         double one = 1;
         c.allreduce_sum(std::span<double>(&one, 1));
       }},
      {"broadcast",
       [](auto& c) {
         int value = c.rank();
         c.broadcast(std::span<int>(&value, 1), c.size() - 1);
         c.barrier();  // without the missing rank a value may well arrive
       }},
      {"gather", [](auto& c) { c.allgather(c.rank()); }},
      {"barrier", [](auto& c) { c.barrier(); }},
      {"exchange",
       [](auto& c) {
         const std::vector<std::size_t> ones(c.size(), 1);
         std::vector<int> send(c.size(), c.rank()), receive(c.size());
         c.alltoallv(std::span<const int>(send), ones, std::span(receive), ones);
       }},
      {"ticket",
       [](auto& c) {
         std::vector<double> one{1};
         c.start_allreduce_sum(std::span(one)).wait();
       }},
      {"split", [](auto& c) { c.split(0, 0); }}};
  return all;
}

}  // namespace

TEST_CASE("a rank that does not arrive is named by all others") {
  const auto world = parallel::make_communicator();
  if (world->size() == 1) return;
  for (const auto& [name, call] : calls()) {
    INFO(name);
    // After an alarm a communicator is not used again; nor is it freed, as at the end of
    // a job.
    parallel::CommunicatorOptions options;
    options.timeout = 0.3;
    auto* const communicator = parallel::make_communicator(options).release();
    communicator->set_step(1234);
    const int missing = world->size() == 2 ? 1 : 2;
    const auto start = std::chrono::steady_clock::now();
    if (world->rank() == missing) {
      sleep_for(1.5);
    } else {
      try {
        call(*communicator);
        FAIL("the call did not end with an error");
      } catch (const Error& error) {
        CHECK(error.code() == Code::communication);
        CHECK_THAT(error.what(),
                   ContainsSubstring("step 1234: rank " + std::to_string(missing) +
                                     " of " + std::to_string(world->size()) +
                                     " did not arrive within 0.3 s"));
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      CHECK(took.count() > 0.25);
      CHECK(took.count() < 1.4);
    }
    world->barrier();
  }
}

TEST_CASE("a rank that is late, but in time, is waited for") {
  const auto world = parallel::make_communicator();
  parallel::CommunicatorOptions options;
  options.timeout = 20;
  const auto communicator = parallel::make_communicator(options);
  for (const auto& [name, call] : calls()) {
    if (communicator->rank() == 0) sleep_for(0.1);
    CHECK_NOTHROW(call(*communicator));
  }
}

TEST_CASE("ranks that are out of step are told so") {
  const auto world = parallel::make_communicator();
  if (world->size() < 2) return;
  parallel::CommunicatorOptions options;
  options.timeout = 0.3;
  auto* const communicator = parallel::make_communicator(options).release();
  // Everybody waits for a message that nobody sends.
  std::array<int, 1> value{};
  CHECK_THROWS_AS(
      communicator->sendrecv(std::span<const int>(), parallel::Communicator::kNobody,
                             std::span<int>(value), (world->rank() + 1) % world->size()),
      Error);
  world->barrier();
}

TEST_CASE("a rank with other values than the rest is named") {
  const auto world = parallel::make_communicator();
  CHECK_NOTHROW(parallel::require_equal(*world, 42, "the parameters"));
  if (world->size() == 1) return;
  const int odd = world->size() - 1;
  try {
    parallel::require_equal(*world, world->rank() == odd ? 43 : 42, "the parameters");
    FAIL("not found");
  } catch (const Error& error) {
    CHECK(error.code() == Code::communication);
    CHECK_THAT(error.what(),
               ContainsSubstring("the parameters: rank " + std::to_string(odd) + " of " +
                                 std::to_string(world->size()) + " differ"));
  }
  CHECK(parallel::odd_ranks({1, 2}) == std::vector<int>{1});
  CHECK(parallel::odd_ranks({2, 1, 1}) == std::vector<int>{0});
  CHECK(parallel::odd_ranks({7, 5, 7, 6}) == std::vector<int>{1, 3});
  CHECK(parallel::odd_ranks({5, 5}).empty());
}
