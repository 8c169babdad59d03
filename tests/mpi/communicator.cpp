// Every call of a communicator against its definition, for each backend that this launch
// allows, with messages whole and cut into pieces. Values depend on rank and position, so
// that a swapped rank or offset is seen.
#include "parallel/communicator.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "kan/error.hpp"
#include "mpi/agree.hpp"

namespace {

using kan::parallel::Communicator;
using kan::parallel::CommunicatorOptions;
using kan::parallel::Operation;

std::vector<CommunicatorOptions> variants() {
  std::vector<CommunicatorOptions> all;
  for (const std::string& backend : kan::parallel::backend_names()) {
    const bool several = kan::parallel::make_communicator()->size() > 1;
    if (backend == "serial" && several) continue;
#ifdef KAN_HAVE_NCCL
    if (backend == "nccl" && several) continue;  // one rank a GPU: mpi/nccl.cpp has more
#else
    if (backend == "nccl") continue;  // refused, see mpi/nccl.cpp
#endif
    CommunicatorOptions options;
    options.backend = backend;
    all.push_back(options);
    options.piece_bytes = 24;
    options.stage = true;
    all.push_back(options);
  }
  return all;
}

template <class Use>
void for_each_variant(const Use& use) {
  for (const CommunicatorOptions& options : variants()) {
    const auto communicator = kan::parallel::make_communicator(options);
    INFO("backend " << options.backend << ", pieces of " << options.piece_bytes);
    use(*communicator);
  }
}

TEST_CASE("the backend is chosen by the number of processes") {
  std::string reason;
  const auto world = kan::parallel::make_communicator({}, &reason);
  const int ranks = world->size();
  CHECK(world->name() == (ranks > 1 ? "mpi" : "serial"));
  CHECK(reason == (ranks > 1 ? "mpi: " + std::to_string(ranks) + " ranks"
                             : std::string("serial: 1 rank")));
  if (ranks > 1) {
    CommunicatorOptions options;
    options.backend = "serial";
    try {
      kan::parallel::make_communicator(options);
      FAIL("independent copies were accepted");
    } catch (const kan::Error& error) {
      CHECK(error.code() == kan::Code::launch);
    }
  }
}

TEST_CASE("broadcast of values and of text, from every root") {
  for_each_variant([](Communicator& all) {
    bool ok = true;
    for (int root = 0; root < all.size(); ++root) {
      std::vector<int> values(17, all.rank());
      all.broadcast(std::span<int>(values), root);
      ok = ok && values == std::vector<int>(17, root);
      std::vector<double> nothing;
      all.broadcast(std::span<double>(nothing), root);
      std::string text = all.rank() == root ? std::string(100, 'x') + "\0end" : "other";
      all.broadcast(text, root);
      ok = ok && text == std::string(100, 'x') + "\0end";
    }
    std::string empty = all.rank() == 0 ? "" : "not empty";
    all.broadcast(empty);
    REQUIRE(on_all(all, ok && empty.empty()));
  });
}

TEST_CASE("sums and maxima, blocking, with a ticket, and of Views") {
  const int n = GENERATE(0, 1, 7, 1000);
  for_each_variant([n](Communicator& all) {
    const int P = all.size(), r = all.rank();
    const auto mine = [r](int i) { return i * 8 + r + 1; };
    const auto sum = [P](int i) { return i * 8 * P + P * (P + 1) / 2; };
    std::vector<float> f(static_cast<std::size_t>(n)), ticket(f.size());
    std::vector<double> d(f.size()), top(f.size());
    std::vector<std::int64_t> k(f.size()), top_k(f.size());
    const kan::View1<double> view("view", f.size());
    const auto host = Kokkos::create_mirror_view(view);
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      f[at] = ticket[at] = static_cast<float>(mine(i));
      d[at] = top[at] = host(at) = mine(i);
      k[at] = (std::int64_t{1} << 53) + mine(i);
      top_k[at] = -mine(i);
    }
    Kokkos::deep_copy(view, host);
    auto pending = all.start_allreduce_sum(std::span<float>(ticket));
    pending.wait();
    pending.wait();  // nothing left to wait for
    all.allreduce_sum(std::span<float>(f));
    all.allreduce_sum(std::span<double>(d));
    all.allreduce_sum(std::span<std::int64_t>(k));
    all.allreduce_max(std::span<double>(top));
    all.allreduce_max(std::span<std::int64_t>(top_k));
    all.allreduce_sum(kan::Exec(), view);
    Kokkos::deep_copy(host, view);
    bool ok = true;
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ok = ok && f[at] == static_cast<float>(sum(i)) && ticket[at] == f[at] &&
           d[at] == sum(i) && host(at) == sum(i) &&
           k[at] == P * (std::int64_t{1} << 53) + sum(i) && top[at] == i * 8 + P &&
           top_k[at] == -(i * 8 + 1);
    }
    REQUIRE(on_all(all, ok));
  });
}

TEST_CASE("a dropped ticket waits for its sum") {
  for_each_variant([](Communicator& all) {
    std::vector<double> a(100, all.rank() + 1), b(100, 1);
    {
      auto first = all.start_allreduce_sum(std::span<double>(a));
      auto second = all.start_allreduce_sum(std::span<double>(b));
      auto moved = std::move(first);
    }
    const double total = all.size() * (all.size() + 1) / 2.0;
    REQUIRE(on_all(all, a == std::vector<double>(100, total) &&
                            b == std::vector<double>(100, all.size())));
  });
}

TEST_CASE("infinities and not-a-number pass through a sum") {
  for_each_variant([](Communicator& all) {
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float> v(3, 1);
    if (all.rank() == all.size() - 1) v = {std::nanf(""), infinity, 1};
    all.allreduce_sum(std::span<float>(v));
    REQUIRE(on_all(all, std::isnan(v[0]) && v[1] == infinity &&
                            v[2] == static_cast<float>(all.size())));
  });
}

TEST_CASE("gathering unequal lengths, ranks without values among them") {
  for_each_variant([](Communicator& all) {
    std::vector<std::size_t> counts;
    std::vector<int> expected;
    for (int r = 0; r < all.size(); ++r) {
      counts.push_back(static_cast<std::size_t>(r % 3) * 5);
      for (std::size_t i = 0; i < counts.back(); ++i) {
        expected.push_back(100 * r + static_cast<int>(i));
      }
    }
    std::vector<int> mine(counts[static_cast<std::size_t>(all.rank())]);
    std::iota(mine.begin(), mine.end(), 100 * all.rank());
    std::vector<int> gathered(expected.size(), -1);
    all.allgatherv(std::span<const int>(mine), std::span<int>(gathered), counts);
    std::vector<int> ranks(static_cast<std::size_t>(all.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    REQUIRE(on_all(all, gathered == expected && all.allgather(all.rank()) == ranks));
  });
}

TEST_CASE("all to all: rank r sends (r + 2 q) mod 5 values to rank q") {
  for_each_variant([](Communicator& all) {
    const int P = all.size(), me = all.rank();
    const auto count = [](int from, int to) { return (from + 2 * to) % 5; };
    std::vector<std::size_t> out, in;
    std::vector<double> send, expected;
    for (int q = 0; q < P; ++q) {
      out.push_back(static_cast<std::size_t>(count(me, q)));
      in.push_back(static_cast<std::size_t>(count(q, me)));
      for (int i = 0; i < count(me, q); ++i) send.push_back(100 * me + 10 * q + i);
      for (int i = 0; i < count(q, me); ++i) expected.push_back(100 * q + 10 * me + i);
    }
    std::vector<double> receive(expected.size(), -1);
    all.alltoallv(std::span<const double>(send), out, std::span<double>(receive), in);
    REQUIRE(on_all(all, receive == expected));
  });
}

TEST_CASE("send and receive around a ring, and along a chain with ends") {
  for_each_variant([](Communicator& all) {
    const int P = all.size(), me = all.rank();
    const std::vector<int> mine(50, me);
    std::vector<int> ring(50, -1), chain(50, -1);
    all.sendrecv(std::span<const int>(mine), (me + 1) % P, std::span<int>(ring),
                 (me + P - 1) % P);
    const int next = me + 1 < P ? me + 1 : Communicator::kNobody;
    const int before = me > 0 ? me - 1 : Communicator::kNobody;
    all.sendrecv(std::span<const int>(mine), next, std::span<int>(chain), before);
    REQUIRE(on_all(all, ring == std::vector<int>(50, (me + P - 1) % P) &&
                            chain == std::vector<int>(50, me > 0 ? me - 1 : -1)));
  });
}

TEST_CASE("a message of the wrong length is error 6 where it arrives") {
  const auto all = kan::parallel::make_communicator();
  if (all->size() < 2) return;
  bool ok = true;
  if (all->rank() == 0) {
    const std::vector<int> values(3, 1);
    all->sendrecv(std::span<const int>(values), 1, std::span<int>(),
                  Communicator::kNobody);
  } else if (all->rank() == 1) {
    std::vector<int> values(4);
    try {
      all->sendrecv(std::span<const int>(), Communicator::kNobody, std::span<int>(values),
                    0);
      ok = false;
    } catch (const kan::Error& error) {
      ok = error.code() == kan::Code::communication;
    }
  }
  REQUIRE(on_all(*all, ok));
}

TEST_CASE("splitting: odd and even ranks apart, order by key, and those left out") {
  for_each_variant([](Communicator& all) {
    const int P = all.size(), me = all.rank();
    const auto half = all.split(me % 2, -me);  // descending ranks
    const auto members = half->allgather(me);
    std::vector<int> expected;
    for (int r = P - 1; r >= 0; --r) {
      if (r % 2 == me % 2) expected.push_back(r);
    }
    bool ok = members == expected && half->size() == static_cast<int>(expected.size()) &&
              expected[static_cast<std::size_t>(half->rank())] == me &&
              half->name() == all.name();
    const auto first = all.split(me == 0 ? 0 : -1, 0);
    ok = ok && (first != nullptr) == (me == 0) && (me != 0 || first->size() == 1);
    REQUIRE(on_all(all, ok));
  });
}

TEST_CASE("statistics count calls and bytes of each kind") {
  for_each_variant([](Communicator& all) {
    all.reset_statistics();
    std::vector<float> values(10, 1);
    all.allreduce_sum(std::span<float>(values));
    all.start_allreduce_sum(std::span<float>(values)).wait();
    all.broadcast(std::span<float>(values));
    all.barrier();
    const auto reduce = all.statistics(Operation::allreduce);
    const auto total = all.statistics();
    const bool ok = reduce.calls == 2 && reduce.bytes == 80 && reduce.seconds > 0 &&
                    all.statistics(Operation::broadcast).bytes == 40 &&
                    all.statistics(Operation::barrier).calls == 1 && total.calls == 4 &&
                    total.bytes == 120 && total.seconds >= reduce.seconds &&
                    all.statistics(Operation::sendrecv).calls == 0;
    REQUIRE(on_all(all, ok));
  });
}

TEST_CASE("wrong arguments are refused before anything is sent") {
  const auto all = kan::parallel::make_communicator();
  std::vector<int> values(2);
  const std::vector<std::size_t> counts(static_cast<std::size_t>(all->size()), 1);
  CHECK_THROWS_AS(all->broadcast(std::span<int>(values), all->size()), kan::Error);
  CHECK_THROWS_AS(
      all->allgatherv(std::span<const int>(values), std::span<int>(values), counts),
      kan::Error);
  CHECK_THROWS_AS(
      all->sendrecv(std::span<const int>(values), -2, std::span<int>(values), 0),
      kan::Error);
}

TEST_CASE("many calls leave nothing behind") {
  for_each_variant([](Communicator& all) {
    std::vector<double> values(3, 0);
    bool ok = true;
    for (int i = 0; i < 2000; ++i) {
      values.assign(3, i);
      all.allreduce_sum(std::span<double>(values));
      ok = ok && values[2] == static_cast<double>(i) * all.size();
    }
    for (int i = 0; i < 50; ++i) ok = ok && all.split(0, 0)->size() == all.size();
    REQUIRE(on_all(all, ok));
  });
}

}  // namespace
