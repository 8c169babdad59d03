// Launch decisions as functions of a made-up environment. What a real launcher does to
// real processes is tested by tests/mpi/launch_tests.cmake.
#include "parallel/launch.hpp"

#include <Kokkos_Core.hpp>
#include <catch2/catch_test_macros.hpp>
#include <map>

#include "parallel/communicator.hpp"

namespace {

using kan::Error;
using kan::parallel::CpuShare;
using kan::parallel::Environment;

Environment environment(std::map<std::string, std::string> variables) {
  return [variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

/// Exit code of check_launcher, 0 where it passes.
int code_of(int world, const Environment& variables) {
  try {
    kan::parallel::check_launcher(world, variables);
  } catch (const kan::Error& error) {
    return static_cast<int>(error.code());
  }
  return 0;
}

TEST_CASE("the nearest launcher says how many ranks there are") {
  using kan::parallel::launcher_size;
  CHECK_FALSE(launcher_size(environment({})));
  CHECK(launcher_size(environment({{"SLURM_NTASKS", "4"}}))->ranks == 4);
  const auto inside =
      launcher_size(environment({{"SLURM_NTASKS", "4"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
  REQUIRE(inside);
  CHECK(inside->ranks == 2);
  CHECK(inside->variable == "OMPI_COMM_WORLD_SIZE");
  CHECK(launcher_size(environment({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}))
            ->ranks == 1);
  for (const char* bad : {"", "four", "4x", "0", "-2", "99999999999999999999"}) {
    CHECK_FALSE(launcher_size(environment({{"PMI_SIZE", bad}})));
  }
}

TEST_CASE("several processes that do not see each other are error 9") {
  CHECK(code_of(1, environment({{"SLURM_NTASKS", "4"}})) == 9);
  CHECK(code_of(1, environment({{"OMPI_COMM_WORLD_SIZE", "2"}})) == 9);
  CHECK(code_of(1, environment({{"PMI_SIZE", "3"}})) == 9);
  CHECK(code_of(1, environment({{"SLURM_NTASKS", "1"}})) == 0);
  CHECK(code_of(1, environment({})) == 0);
  CHECK(code_of(4, environment({{"SLURM_NTASKS", "4"}})) == 0);
  CHECK(code_of(2, environment({{"SLURM_NTASKS", "4"}})) == 0);
  CHECK(code_of(1, environment({{"SLURM_NTASKS", "4"}, {"KAN_ALLOW_SINGLETON", "1"}})) ==
        0);
  CHECK(code_of(1, environment({{"SLURM_NTASKS", "4"}, {"KAN_ALLOW_SINGLETON", "0"}})) ==
        9);
}

TEST_CASE("threads by default: a rank's own CPUs, or its part of shared ones") {
  using kan::parallel::default_threads;
  CHECK(default_threads({16, 16, 16, 1}) == 16);
  CHECK(default_threads({4, 16, 16, 4}) == 4);   // bound by the launcher
  CHECK(default_threads({16, 16, 64, 4}) == 4);  // four ranks that see all CPUs
  CHECK(default_threads({16, 16, 48, 3}) == 5);
  CHECK(default_threads({2, 2, 16, 8}) == 1);  // more ranks than CPUs
}

TEST_CASE("threads come from a flag, the deck or the environment, and are checked") {
  const auto environment = [](const char* omp, const char* kokkos) {
    return [=](const char* name) -> const char* {
      return std::string(name) == "OMP_NUM_THREADS"      ? omp
             : std::string(name) == "KOKKOS_NUM_THREADS" ? kokkos
                                                         : nullptr;
    };
  };
  const auto none = environment(nullptr, nullptr);
  CHECK(kan::parallel::threads_asked(0, {}, none) == 0);
  CHECK(kan::parallel::threads_asked(3, {}, none) == 3);
  CHECK(kan::parallel::threads_asked(3, {"--kokkos-num-threads=5"},
                                     environment("2", "4")) == 5);
  CHECK(kan::parallel::threads_asked(0, {}, environment("2,1", nullptr)) == 2);
  CHECK(kan::parallel::threads_asked(0, {}, environment("2", "4")) == 4);
  CHECK(kan::parallel::threads_asked(0, {}, environment("99999999999999", nullptr)) >
        1000000);
  for (const char* bad : {"0", "-3", "abc", "2x"}) {
    CHECK_THROWS_AS(kan::parallel::threads_asked(0, {}, environment(bad, nullptr)),
                    Error);
    CHECK_THROWS_AS(kan::parallel::threads_asked(
                        1, {std::string("--kokkos-num-threads=") + bad}, none),
                    Error);
  }
  CHECK_THROWS_AS(
      kan::parallel::threads_asked(1, {"--kokkos-map-device-id-by=foo"}, none), Error);
  CHECK(kan::parallel::threads_asked(1, {"--kokkos-map-device-id-by=mpi_rank"}, none) ==
        1);
}

TEST_CASE("threads asked for: silent, noted, or refused") {
  using kan::parallel::check_threads;
  const CpuShare alone{8, 8, 8, 1}, shared{8, 8, 32, 4};
  CHECK(check_threads(0, alone).empty());
  CHECK(check_threads(8, alone).empty());
  CHECK(check_threads(2, shared).empty());
  CHECK(check_threads(9, alone).find("run/threads = 9") != std::string::npos);
  CHECK(check_threads(3, shared).find("4 ranks") != std::string::npos);
  CHECK_FALSE(check_threads(256, alone).empty());
  try {
    check_threads(257, alone);
    FAIL("257 threads on 8 CPUs were accepted");
  } catch (const kan::Error& error) {
    CHECK(error.code() == kan::Code::device);
    CHECK(std::string(error.what()).find("257 threads are asked for (run/threads") == 0);
  }
}

TEST_CASE("an error is one line of the documented form") {
  CHECK(kan::parallel::error_line("kan_driver", 3, 8, "what, where", kan::Code::data) ==
        "kan_driver: error[3] rank 3/8: what, where\n");
}

TEST_CASE("a launch inside a running program leaves MPI and Kokkos running") {
  {
    kan::parallel::Launch launch;
    launch.start_kokkos(Kokkos::DefaultHostExecutionSpace().concurrency() + 1);
    CHECK(launch.rank() == 0);
    CHECK(launch.ranks() == 1);
    CHECK(launch.nodes() == 1);
    CHECK(launch.local_rank() == 0);
    CHECK(launch.local_ranks() == 1);
    CHECK(launch.cpus().own >= 1);
    CHECK(launch.threads() == Kokkos::DefaultHostExecutionSpace().concurrency());
    REQUIRE_FALSE(
        launch.notes().empty());  // one thread more than Kokkos was started with
    CHECK(launch.mpi_version().find('\n') == std::string::npos);
#ifdef KAN_HAVE_MPI
    CHECK(launch.mpi_version().find("MPI") != std::string::npos);
#else
    CHECK(launch.mpi_version() == "none");
#endif
  }
  CHECK(Kokkos::is_initialized());
  CHECK_FALSE(Kokkos::is_finalized());
  CHECK(kan::parallel::make_communicator()->size() == 1);  // still asks MPI
}

TEST_CASE("the choice of backend, in words and in errors") {
  using kan::parallel::make_communicator;
  std::string reason;
  kan::parallel::CommunicatorOptions options;
  CHECK(make_communicator(options, &reason)->name() == "serial");
  CHECK(reason == "serial: 1 rank");
  options.backend = "carrier_pigeon";
  try {
    make_communicator(options);
    FAIL("an unknown backend was accepted");
  } catch (const kan::Error& error) {
    CHECK(error.code() == kan::Code::usage);
    CHECK(std::string(error.what()).find("accepted: auto, serial") != std::string::npos);
  }
}

}  // namespace
