// The nccl backend without NCCL: its state machine over a stand-in for the library (host
// memory, MPI), led through everything the library may do. What is seen here is our side:
// sums arrive, deadlines hold, every way to fail ends in an abort and a message.
#include "parallel/nccl.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "kan/error.hpp"
#include "mpi/agree.hpp"
#include "parallel/reducer.hpp"
#include "support/nccl_stand_in.hpp"

namespace {

using namespace kan::parallel;
using Clock = std::chrono::steady_clock;

constexpr double kTimeout = 0.5;

/// A place of its own for each rank.
RankPlace place_of(int rank) {
  RankPlace place;
  const std::string host = "node" + std::to_string(rank / 2);
  const std::string bus = "0000:" + std::to_string(10 + rank % 2) + ":00.0";
  host.copy(place.host.data(), place.host.size() - 1);
  bus.copy(place.bus.data(), place.bus.size() - 1);
  place.device = rank % 2;
  return place;
}

std::unique_ptr<Communicator> start(NcclStandIn& api, const RankPlace& place,
                                    double timeout = kTimeout) {
  CommunicatorOptions options;
  options.timeout = timeout;
  return make_nccl(api, make_communicator(), place, options);
}

std::unique_ptr<Communicator> start(NcclStandIn& api, double timeout = kTimeout) {
  return start(api, place_of(make_communicator()->rank()), timeout);
}

struct Failure {
  kan::Code code;
  std::string text;
  double seconds;
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

template <class Call>
std::optional<Failure> failure_of(const Call& call) {
  const auto begin = Clock::now();
  try {
    call();
  } catch (const kan::Error& error) {
    return Failure{error.code(), error.what(),
                   std::chrono::duration<double>(Clock::now() - begin).count()};
  }
  return {};
}

/// Within the deadline, an abort, and what ranks on busy cores need.
bool in_time(const Failure& failure) {
  return failure.seconds > 0.9 * kTimeout && failure.seconds < kTimeout + 5;
}

TEST_CASE("sums of Views, and the lane behind a gradient") {
  const auto world = make_communicator();
  NcclStandIn api;
  const auto all = start(api, 30);
  const int P = all->size(), r = all->rank();
  CHECK(all->name() == "nccl");
  bool ok = P == world->size() && r == world->rank();
  for (const std::size_t n : {0, 1, 1000}) {
    const kan::View1<float> f("f", n);
    const kan::View1<double> d("d", n);
    for (std::size_t i = 0; i < n; ++i) {
      f(i) = float(r + i);
      d(i) = r * 0.5 + double(i);
    }
    all->allreduce_sum(kan::Exec(), f);
    all->allreduce_sum(kan::Exec(), d);
    for (std::size_t i = 0; i < n; ++i) {
      ok = ok && f(i) == float(P * (P - 1) / 2 + P * i) &&
           d(i) == P * (P - 1) / 4.0 + double(P * i);
    }
  }
  CHECK(on_all(*world, ok && api.sums == 4));
  GradientReducer<float> reducer(*all, 3);
  for (std::size_t i = 0; i < 3; ++i) reducer.gradient()(i) = float(r + 1);
  const LaneOut out =
      reducer.reduce(kan::Exec(), {.loss_sum = 0.25, .stop = {.stop_now = r == P - 1}});
  ok = out.loss_sum == 0.25 * P && out.stop.stop_now &&
       (P == 1 || reducer.gradient()(2) == float(P * (P + 1) / 2));
  CHECK(on_all(*world, ok));
}

TEST_CASE("host memory goes through the communicator inside") {
  const auto world = make_communicator();
  NcclStandIn api;
  const auto all = start(api, 30);
  const int P = all->size(), r = all->rank();
  std::vector<int> text(5, r);
  all->broadcast(std::span(text), P - 1);
  bool ok = text == std::vector<int>(5, P - 1);
  std::vector<double> d{1.0 * r}, top{1.0 * r}, ticket{2.0 * r};
  std::vector<float> f{1}, ticket_f{3};
  std::vector<std::int64_t> k{1}, top_k{-r};
  auto a = all->start_allreduce_sum(std::span(ticket));
  auto b = all->start_allreduce_sum(std::span(ticket_f));
  a.wait();
  b.wait();
  all->allreduce_sum(std::span(d));
  all->allreduce_max(std::span(top));
  all->allreduce_sum(std::span(f));
  all->allreduce_sum(std::span(k));
  all->allreduce_max(std::span(top_k));
  ok = ok && d[0] == P * (P - 1) / 2.0 && top[0] == P - 1 && f[0] == float(P) &&
       k[0] == P && top_k[0] == 0 && ticket[0] == 2 * d[0] && ticket_f[0] == 3.0f * P;
  const std::vector<int> ranks = all->allgather(r);
  for (int i = 0; i < P; ++i) ok = ok && ranks[std::size_t(i)] == i;
  const std::vector<std::size_t> ones(std::size_t(P), 1);
  std::vector<int> send(std::size_t(P), r), received(std::size_t(P), -1);
  all->alltoallv(std::span<const int>(send), ones, std::span(received), ones);
  ok = ok && received == ranks;
  const int next = (r + 1) % P, before = (r + P - 1) % P;
  int got = -1;
  all->sendrecv(std::span<const int>(&r, 1), next, std::span(&got, 1), before);
  all->barrier();
  CHECK(on_all(*world, ok && got == before && api.sums == 0));
}

TEST_CASE("parts of a communicator have an NCCL of their own") {
  const auto world = make_communicator();
  NcclStandIn api;
  {
    const auto all = start(api, 30);
    const int P = all->size(), r = all->rank();
    const bool out = P > 2 && r == P - 1;
    const auto part = all->split(out ? -1 : r % 2, r);
    bool ok = (part == nullptr) == out;
    if (part) {
      const kan::View1<double> one("one", 1);
      Kokkos::deep_copy(one, 1.0);
      part->allreduce_sum(kan::Exec(), one);
      ok = ok && part->name() == "nccl" && one(0) == part->size() && api.inits == 2;
    }
    CHECK(on_all(*world, ok));
  }
  CHECK(on_all(*world, api.destroyed == api.inits && api.events == 0));
}

TEST_CASE("calls that stay in progress for a while succeed") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.init_polls = 40;
  api.sum_polls = 20;
  api.finalize_polls = 30;
  {
    const auto all = start(api, 30);
    CHECK(on_all(*world, api.states == 41));
    const kan::View1<float> one("one", 1);
    Kokkos::deep_copy(one, 1.0f);
    all->allreduce_sum(kan::Exec(), one);
    CHECK(on_all(*world, one(0) == float(all->size())));
    api.states = 0;
  }
  CHECK(on_all(*world, api.states == 31 && api.finalized == 1 && api.destroyed == 1 &&
                           api.aborted == 0 && api.events == 0));
}

TEST_CASE("a start that never ends is error 6 within the deadline") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.init_never = true;
  const auto failure = failure_of([&] { start(api); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::communication &&
                           in_time(*failure) && api.aborted == 1 && api.destroyed == 0));
  REQUIRE(failure);
  CHECK(failure->has("the start of NCCL failed on rank " + std::to_string(world->rank()) +
                     " of " + std::to_string(world->size())));
  api.release();
}

TEST_CASE("a sum that a rank never sends is error 6 on all ranks within the deadline") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.hold_sums = world->rank() == world->size() - 1;
  const auto all = start(api);
  all->set_step(17);
  const kan::View1<float> values("values", 10);
  const auto failure = failure_of([&] { all->allreduce_sum(kan::Exec(), values); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::communication &&
                           in_time(*failure) && api.aborted == 1));
  REQUIRE(failure);
  const RankPlace place = place_of(world->rank());
  for (const std::string& part :
       {std::string("step 17: a sum over NCCL failed on rank ") +
            std::to_string(world->rank()) + " of " + std::to_string(world->size()) +
            " (" + place.host.data() + ", GPU " + place.bus.data() + ")",
        std::string("not finished within 0.5 s (parallel/timeout)"),
        std::string("NCCL_DEBUG=INFO"), std::string("NCCL_SOCKET_IFNAME"),
        std::string("-r latest")}) {
    INFO(failure->text);
    CHECK(failure->has(part));
  }
  // The communicator is gone: the next sum says so at once.
  const auto again = failure_of([&] { all->allreduce_sum(kan::Exec(), values); });
  CHECK(on_all(*world, again && again->seconds < kTimeout && api.aborted == 1));
  api.release();
}

TEST_CASE("an error in the background on one rank ends all, with the library's words") {
  const auto world = make_communicator();
  NcclStandIn api;
  const bool hit = world->rank() == 0;
  if (hit) {
    api.background = NcclResult::remote_error;
    api.hold_sums = true;
  }
  const auto all = start(api);
  const kan::View1<double> values("values", 10);
  const auto failure = failure_of([&] { all->allreduce_sum(kan::Exec(), values); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::communication &&
                           api.aborted == 1 && hit == failure->has("stand-in error 6") &&
                           (hit || in_time(*failure))));
  api.release();
}

TEST_CASE("an error in the background counts although the stream went on") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.background = NcclResult::internal_error;
  const auto all = start(api);
  const kan::View1<double> values("values", 10);
  const auto failure = failure_of([&] { all->allreduce_sum(kan::Exec(), values); });
  CHECK(on_all(*world, failure && failure->has("stand-in error 3") && api.aborted == 1));
  api.release();
}

TEST_CASE("an end that never ends is given up") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.finalize_never = true;
  const auto begin = Clock::now();
  {
    const auto all = start(api);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  CHECK(on_all(*world, seconds > 0.9 * kTimeout && seconds < kTimeout + 5 &&
                           api.finalized == 1 && api.destroyed == 0 && api.aborted == 1));
  api.release();
}

TEST_CASE("an exception that passes aborts instead of waiting for the others") {
  const auto world = make_communicator();
  NcclStandIn api;
  try {
    const auto all = start(api);
    throw std::runtime_error("passing");
  } catch (const std::runtime_error&) {
    CHECK(on_all(*world, api.finalized == 0 && api.aborted == 1));
  }
  api.release();
}

TEST_CASE("an abort that does not return is left alone, and the process set to end") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.hold_sums = api.abort_hangs = true;
  const auto all = start(api);
  const kan::View1<double> values("values", 10);
  const auto failure = failure_of([&] { all->allreduce_sum(kan::Exec(), values); });
  const unsigned seconds_left = alarm(0);
  CHECK(on_all(*world, failure && failure->code == kan::Code::communication &&
                           failure->seconds < 2 * kTimeout + 5 && seconds_left > 0));
  api.release();
  while (api.returned == 0) usleep(1000);  // the thread still uses api
}

TEST_CASE("two ranks on one device are found before NCCL is called") {
  const auto world = make_communicator();
  if (world->size() == 1) return;
  NcclStandIn api;
  // The last rank says that it is where rank 0 is.
  const int last = world->size() - 1;
  const auto failure = failure_of(
      [&] { start(api, place_of(world->rank() == last ? 0 : world->rank())); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::launch && api.ids == 0 &&
                           api.inits == 0 && api.states == 0 && api.aborted == 0));
  REQUIRE(failure);
  INFO(failure->text);
  CHECK(failure->has("ranks 0 and " + std::to_string(last) +
                     " are both on GPU 0000:10:00.0 of node0"));
  CHECK(failure->has("--gpus-per-task=1"));
}

TEST_CASE("an old library is error 8, with both versions") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.loaded_version = 21903;
  const auto failure = failure_of([&] { start(api); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::device && api.inits == 0));
  REQUIRE(failure);
  CHECK(failure->has("2.19.3"));
  CHECK(failure->has("2.28.9"));
}

TEST_CASE("rank 0 cannot start: all ranks say so") {
  const auto world = make_communicator();
  NcclStandIn api;
  api.id_result = NcclResult::system_error;
  const auto failure = failure_of([&] { start(api); });
  CHECK(on_all(*world, failure && failure->code == kan::Code::communication &&
                           failure->has("stand-in error 2") && api.inits == 0));
}

#ifndef KAN_HAVE_NCCL
TEST_CASE("a build without NCCL knows the word and refuses it with code 8") {
  CommunicatorOptions options;
  options.backend = "nccl";
  const auto failure = failure_of([&] { make_communicator(options); });
  REQUIRE(failure);
  CHECK(failure->code == kan::Code::device);
  CHECK(failure->has("-DKAN_ENABLE_NCCL=ON"));
}
#endif

}  // namespace
