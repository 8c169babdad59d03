// Start and end of MPI and Kokkos. What a node offers is found with an MPI communicator
// of the ranks that share memory; CPUs are counted from affinity masks, so that what a
// batch system or a launcher gave each rank is respected.
#include "parallel/launch.hpp"

#include <sched.h>
#include <unistd.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <string_view>
#include <thread>

#include "parallel/mpi_check.hpp"
#include "parallel/rank_list.hpp"
#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

namespace kan::parallel {
namespace {

/// Set by launchers for each process they start, nearest first. Slurm's job-wide variable
/// is last: it is also there for a process started without srun.
constexpr const char* kSizeVariables[] = {
    "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",  "PMI_SIZE",
    "JSM_NAMESPACE_SIZE",   "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};

constexpr unsigned kAbortSeconds = 20;
volatile std::sig_atomic_t abort_code = 1;

extern "C" void kan_parallel_on_abort_timeout(int) { _exit(abort_code); }

/// CPUs the thread runtime found when the program was loaded, 0 where it does not say.
int runtime_cpus() {
#ifdef KOKKOS_ENABLE_OPENMP
  return omp_get_num_procs();
#else
  return 0;
#endif
}

#ifdef KAN_HAVE_MPI
bool mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}
#endif

}  // namespace

std::optional<LauncherSize> launcher_size(const Environment& environment) {
  for (const char* variable : kSizeVariables) {
    const char* text = environment(variable);
    if (text == nullptr) continue;
    int ranks = 0;
    const char* last = text + std::strlen(text);
    const auto [end, error] = std::from_chars(text, last, ranks);
    if (error == std::errc() && end == last && ranks >= 1) {
      return LauncherSize{variable, ranks};
    }
  }
  return {};
}

void check_launcher(int world, const Environment& environment) {
  const auto launcher = launcher_size(environment);
  if (world > 1 || !launcher || launcher->ranks <= 1) return;
  const char* allowed = environment("KAN_ALLOW_SINGLETON");
  if (allowed != nullptr && std::string(allowed) == "1") return;
#ifdef KAN_HAVE_MPI
  const char* remedy =
      "use the launcher of the MPI library this program was built with (srun --mpi=pmix "
      "or --mpi=pmi2, see srun --mpi=list, or its mpirun)";
#else
  const char* remedy = "this build has no MPI: start one process, or build with MPI";
#endif
  throw Error(Code::launch, launcher->variable + " = " + std::to_string(launcher->ranks) +
                                ", but this process is alone in its MPI world; each copy "
                                "would do the same work and write the same files: " +
                                remedy +
                                "; KAN_ALLOW_SINGLETON=1 if one process is meant");
}

int default_threads(const CpuShare& cpus) {
  if (cpus.node_sum <= cpus.node) return std::max(1, cpus.own);
  return std::max(1, std::min(cpus.own, cpus.node / std::max(1, cpus.node_ranks)));
}

std::string check_threads(int requested, const CpuShare& cpus) {
  if (requested <= 0) return {};
  const int most = std::max(256, 4 * cpus.node);
  if (requested > most) {
    throw Error(Code::device, std::to_string(requested) +
                                  " threads are asked for (run/threads, "
                                  "OMP_NUM_THREADS) on a node with " +
                                  count_of(cpus.node, "CPU") + ": at most " +
                                  std::to_string(most) + " are started; choose about " +
                                  std::to_string(default_threads(cpus)));
  }
  if (requested <= cpus.own && requested * cpus.node_ranks <= cpus.node) return {};
  return "run/threads = " + std::to_string(requested) + " for each of " +
         count_of(cpus.node_ranks, "rank") + " on the node: this rank may use " +
         count_of(cpus.own, "CPU") + ", the node's ranks " + std::to_string(cpus.node) +
         " together, so threads will take turns";
}

int threads_asked(int threads, const std::vector<std::string>& flags,
                  const Environment& environment) {
  const auto number = [](const std::string& name, std::string_view text, Code code) {
    text = text.substr(0, text.find(','));  // OMP_NUM_THREADS may be a list
    int value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value);
    const bool large = error == std::errc::result_out_of_range;
    if (!large && (error != std::errc() || end != text.data() + text.size() || value < 1))
      throw Error(code, name + " = " + std::string(text) +
                            ": a number of threads, at least 1, is expected");
    return large ? std::numeric_limits<int>::max() : value;
  };
  constexpr std::string_view kThreads = "--kokkos-num-threads=";
  constexpr std::string_view kMap = "--kokkos-map-device-id-by=";
  int asked = 0;
  for (const std::string& flag : flags) {
    if (flag.starts_with(kThreads))
      asked = number("--kokkos-num-threads", flag.substr(kThreads.size()), Code::usage);
    // Kokkos itself would abort.
    if (flag.starts_with(kMap) && flag != std::string(kMap) + "mpi_rank" &&
        flag != std::string(kMap) + "random")
      throw Error(Code::usage, flag + ": mpi_rank or random is expected");
  }
  if (asked == 0) asked = threads;
  for (const char* name : {"KOKKOS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* text = environment(name);
    if (text == nullptr || *text == '\0') continue;
    const int value = number(name, text, Code::launch);
    if (asked == 0) asked = value;
  }
  return asked;
}

Launch::Guard::~Guard() {
  if (kokkos && Kokkos::is_initialized() && !Kokkos::is_finalized()) Kokkos::finalize();
#ifdef KAN_HAVE_MPI
  if (mpi && std::uncaught_exceptions() == 0 && mpi_running()) MPI_Finalize();
#endif
}

Launch::Launch() {
#ifdef KAN_HAVE_MPI
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    int provided = MPI_THREAD_SINGLE;
    KAN_CHECK_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    guard_.mpi = true;
    if (provided < MPI_THREAD_FUNNELED) {
      notes_.emplace_back("the MPI library does not promise to work beside threads");
    }
  }
  KAN_CHECK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  KAN_CHECK_MPI(MPI_Get_library_version(version, &length));
  const std::string text(version);  // some libraries count the final zero in length
  mpi_version_ = text.substr(0, text.find_first_of("\r\n"));
#endif
  survey();
  check_launcher(ranks_, [](const char* name) { return std::getenv(name); });
}

Launch::~Launch() = default;

/// Finds ranks, nodes and CPUs. Collective.
void Launch::survey() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on machines with more than 1024 CPUs, and shows one CPU where the OpenMP
  // runtime has bound the main thread already (OMP_PROC_BIND): then `mask` is not what
  // was given.
  const int visible =
      sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
  cpus_.own = std::max({1, visible, runtime_cpus()});
  cpus_.node = cpus_.node_sum = cpus_.own;
#ifdef KAN_HAVE_MPI
  KAN_CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  KAN_CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks_));
  MPI_Comm neighbours = MPI_COMM_NULL;
  KAN_CHECK_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_,
                                    MPI_INFO_NULL, &neighbours));
  KAN_CHECK_MPI(MPI_Comm_rank(neighbours, &local_rank_));
  KAN_CHECK_MPI(MPI_Comm_size(neighbours, &cpus_.node_ranks));
  node_lead_ = rank_;
  KAN_CHECK_MPI(MPI_Bcast(&node_lead_, 1, MPI_INT, 0, neighbours));
  node_of_.resize(static_cast<std::size_t>(ranks_));
  KAN_CHECK_MPI(MPI_Allgather(&node_lead_, 1, MPI_INT, node_of_.data(), 1, MPI_INT,
                              MPI_COMM_WORLD));
  nodes_ = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    int& node = node_of_[static_cast<std::size_t>(rank)];
    node = node == rank ? nodes_++ : node_of_[static_cast<std::size_t>(node)];
  }
  const std::array<int, 2> mine{cpus_.own, visible == cpus_.own ? 0 : 1};
  std::array<int, 2> sums{};
  KAN_CHECK_MPI(MPI_Allreduce(mine.data(), sums.data(), 2, MPI_INT, MPI_SUM, neighbours));
  cpu_set_t all;
  KAN_CHECK_MPI(MPI_Allreduce(&mask, &all, static_cast<int>(sizeof mask), MPI_BYTE,
                              MPI_BOR, neighbours));
  cpus_.node_sum = sums[0];
  const int distinct =
      sums[1] == 0 ? CPU_COUNT(&all)
                   : std::min(sums[0], static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cpus_.node = std::max(distinct, cpus_.own);
  KAN_CHECK_MPI(MPI_Comm_free(&neighbours));
#endif
}

void Launch::start_kokkos(int threads, const std::vector<std::string>& flags) {
  const int asked =
      threads_asked(threads, flags, [](const char* n) { return std::getenv(n); });
  const std::string note = check_threads(asked, cpus_);
  if (threads > 0 && !note.empty()) notes_.push_back(note);
  if (!Kokkos::is_initialized()) {
    // Our settings go first on a command line made for Kokkos, where later flags win.
    std::vector<std::string> words{"kan", "--kokkos-disable-warnings"};
    words.push_back("--kokkos-num-threads=" +
                    std::to_string(asked > 0 ? asked : default_threads(cpus_)));
    const int devices = Kokkos::num_devices();
    if (devices > 0) {
      words.push_back("--kokkos-device-id=" + std::to_string(local_rank_ % devices));
    }
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int count = static_cast<int>(words.size());
    try {
      Kokkos::initialize(count, arguments.data());
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw Error(flags.empty() ? Code::device : Code::usage,
                  "Kokkos cannot start: " + text.substr(0, text.find('\n')) +
                      "; check run/threads, the --kokkos-... flags and the KOKKOS_... "
                      "variables of the environment");
    }
    guard_.kokkos = true;
    if (count > 1) {
      throw Error(Code::usage, std::string(arguments[1]) +
                                   ": not a flag of Kokkos; --kokkos-help lists them");
    }
  }
  threads_ = Kokkos::DefaultHostExecutionSpace().concurrency();
  if (threads > threads_) {
    notes_.push_back("run/threads = " + std::to_string(threads) + ": this build runs " +
                     count_of(threads_, "host thread"));
  }
}

std::string error_line(const std::string& program, int rank, int ranks,
                       const std::string& message, Code code) {
  return program + ": error[" + std::to_string(static_cast<int>(code)) + "] rank " +
         std::to_string(rank) + "/" + std::to_string(ranks) + ": " + message + "\n";
}

int fail(const std::string& program, const Error& error) {
  const int code = static_cast<int>(error.code());
  int rank = 0, ranks = 1;
#ifdef KAN_HAVE_MPI
  const bool running = mpi_running();
  if (running) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
#endif
  if (rank > 0) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(250 + std::min(5000, 20 * rank)));
  }
  std::fflush(stdout);
  const std::string line = error_line(program, rank, ranks, error.what(), error.code());
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
#ifdef KAN_HAVE_MPI
  if (running && ranks > 1) {
    abort_code = code;
    std::signal(SIGALRM, kan_parallel_on_abort_timeout);
    alarm(kAbortSeconds);
    MPI_Abort(MPI_COMM_WORLD, code);
    std::_Exit(code);
  }
  if (running) MPI_Finalize();
#endif
  return code;
}

}  // namespace kan::parallel
