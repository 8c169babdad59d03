// How a process becomes a rank: starts MPI and Kokkos in the right order, checks that the
// launcher and the MPI library agree, and ends them again, or ends the whole job when one
// rank fails. Use in main:
//
//   try {
//     Launch launch;                       // MPI, ranks and nodes
//     ... read the deck on rank 0 and broadcast it ...
//     launch.start_kokkos(threads, flags); // Kokkos on this rank's share of the node
//     return run(...);
//   } catch (const Error& error) { return fail("kan_driver", error); }
//
// An exception that leaves main's block skips MPI_Finalize, where ranks that have lost
// their peers would hang; fail() then ends the job through MPI_Abort.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kan/error.hpp"

namespace kan::parallel {

/// Value of an environment variable, or nullptr; std::getenv outside tests.
using Environment = std::function<const char*(const char*)>;

/// What a launcher wrote into the environment: ranks, and the variable that says so.
struct LauncherSize {
  std::string variable;
  int ranks = 1;
};

/// The launcher nearest to this process wins: mpirun inside a Slurm job counts, not the
/// job. Empty where no launcher is seen.
std::optional<LauncherSize> launcher_size(const Environment& environment);

/// Throws code 9 where a launcher started several processes but each is alone in its own
/// MPI world: they would all do the same work and write the same files. The usual cause
/// is a launcher of another MPI library. KAN_ALLOW_SINGLETON=1 lets it pass.
void check_launcher(int world, const Environment& environment);

/// CPUs that this process and its neighbours may use.
struct CpuShare {
  int own = 1;         ///< of this process, by its affinity
  int node = 1;        ///< of all ranks of the node together, each CPU counted once
  int node_sum = 1;    ///< sum of `own` over the ranks of the node
  int node_ranks = 1;  ///< ranks on the node
};

/// Threads of a rank when none are asked for: its own CPUs, or its part of them where
/// ranks of the node share the same ones. At least 1.
int default_threads(const CpuShare& cpus);

/// Threads asked for by the Kokkos flags, the deck (threads, 0: not), or the environment,
/// in this order; 0: by nobody. Throws code 2 for a flag, code 9 for a variable, that
/// Kokkos would abort at.
int threads_asked(int threads, const std::vector<std::string>& flags,
                  const Environment& environment);

/// What to note about a number of threads asked for (0: nothing asked): empty, or that
/// threads share CPUs. Throws code 8 for more threads than a machine could start.
std::string check_threads(int requested, const CpuShare& cpus);

class Launch {
 public:
  /// Starts MPI (unless it runs already) for calls from the main thread only. Throws code
  /// 9 as check_launcher.
  Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  /// Ends Kokkos, and MPI unless an exception is passing, where this object started them.
  ~Launch();

  /// Starts Kokkos (unless it runs already) with `threads` host threads, 0:
  /// OMP_NUM_THREADS where set, else default_threads. A rank takes the device of its
  /// number on the node. flags: the user's --kokkos-... arguments; they win. Throws code
  /// 2 for a flag Kokkos refuses, code 8 where a device or the threads cannot be had.
  void start_kokkos(int threads = 0, const std::vector<std::string>& flags = {});

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int nodes() const { return nodes_; }
  /// Lowest rank on the same node: what the node is known by.
  int node_lead() const { return node_lead_; }
  /// Node of each rank, counted from 0 in the order of their first ranks: ranks that can
  /// share memory are on one node.
  const std::vector<int>& node_of() const { return node_of_; }
  /// Rank among those on the same node, and how many those are.
  int local_rank() const { return local_rank_; }
  int local_ranks() const { return cpus_.node_ranks; }
  const CpuShare& cpus() const { return cpus_; }
  /// Host threads of Kokkos, once started.
  int threads() const { return threads_; }
  /// First line of what the MPI library says of itself; "none" in a build without MPI.
  const std::string& mpi_version() const { return mpi_version_; }
  /// Remarks for the log, found so far on this rank.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// Ends what was started, also where the constructor itself throws.
  struct Guard {
    bool mpi = false, kokkos = false;
    ~Guard();
  };
  void survey();

  Guard guard_;
  int rank_ = 0, ranks_ = 1, nodes_ = 1, node_lead_ = 0, local_rank_ = 0, threads_ = 1;
  std::vector<int> node_of_{0};
  CpuShare cpus_;
  std::string mpi_version_ = "none";
  std::vector<std::string> notes_;
};

/// "kan_driver: error[CODE] rank R/P: message", the line for stderr.
std::string error_line(const std::string& program, int rank, int ranks,
                       const std::string& message, Code code);

/// For the catch clause of main: prints error_line and, among several ranks, ends the job
/// with the error's code and does not return (at the latest after 20 s, whatever the
/// library does). A lone process gets the code back to return it. Ranks other than 0 wait
/// a moment first, so that an error all ranks have is printed once.
int fail(const std::string& program, const Error& error);

}  // namespace kan::parallel
