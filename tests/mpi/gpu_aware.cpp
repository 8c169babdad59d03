// Whether device memory goes to the MPI library: the decision for every answer of the
// library, and the trial sum, here with memory of the host.
#include "parallel/gpu_aware.hpp"

#include <catch2/catch_test_macros.hpp>

#include "kan/error.hpp"

namespace {

using namespace kan::parallel;

struct Decision {
  bool aware = false;
  int code = 0, tests = 0;
  std::string reason;
};

Decision decide(GpuAware mode, bool host, GpuSupport support, bool test_result) {
  Decision d;
  const auto test = [&] {
    ++d.tests;
    return test_result;
  };
  try {
    d.aware = decide_gpu_aware(mode, host, support, test, d.reason);
  } catch (const kan::Error& error) {
    d.code = static_cast<int>(error.code());
    d.reason = error.what();
  }
  return d;
}

TEST_CASE("the decision, answer by answer") {
  using enum GpuAware;
  using enum GpuSupport;
  struct Row {
    GpuAware mode;
    bool host;
    GpuSupport support;
    bool test_result, aware;
    int code, tests;
  };
  for (const Row& row : {
           Row{off, false, yes, true, false, 0, 0},
           Row{off, true, unknown, true, false, 0, 0},
           Row{automatic, true, yes, true, false, 0, 0},
           Row{on, true, yes, true, false, 8, 0},
           Row{automatic, false, yes, true, true, 0, 1},
           Row{automatic, false, yes, false, false, 0, 1},
           Row{automatic, false, no, true, false, 0, 0},
           Row{automatic, false, unknown, true, false, 0, 0},
           Row{on, false, yes, true, true, 0, 1},
           Row{on, false, unknown, true, true, 0, 1},
           Row{on, false, unknown, false, false, 8, 1},
           Row{on, false, no, true, false, 8, 0},
       }) {
    const Decision d = decide(row.mode, row.host, row.support, row.test_result);
    INFO(int(row.mode) << row.host << int(row.support) << row.test_result << d.reason);
    CHECK(d.aware == row.aware);
    CHECK(d.code == row.code);
    CHECK(d.tests == row.tests);
    CHECK_FALSE(d.reason.empty());
    if (d.code != 0) CHECK(d.reason.find("parallel/gpu_aware = on") != std::string::npos);
  }
}

TEST_CASE("the trial sum is right where the library can reach the memory") {
  if (!kan::kHostExecution) SKIP("with memory of the host only");
  CHECK(sum_in_place_works(MPI_COMM_WORLD));
}

TEST_CASE("a build for the host copies nothing, and says so") {
  if (!kan::kHostExecution) SKIP("for builds without a GPU backend");
  std::string reason;
  CHECK_FALSE(gpu_aware(MPI_COMM_WORLD, GpuAware::automatic, reason));
  CHECK(reason == "kernels run on the host");
  CHECK_THROWS_AS(gpu_aware(MPI_COMM_WORLD, GpuAware::on, reason), kan::Error);
}

}  // namespace
