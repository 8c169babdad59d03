// A small program around Launch, as main of a driver uses it, for the launch tests.
//   launch_probe info [THREADS] [--kokkos-...]   one line about the launch, from rank 0
//   launch_probe fail RANK CODE       one rank fails while the others wait for it
//   launch_probe fail_all CODE        all ranks have the same error
//   launch_probe serial | nccl        asks for that backend
//   launch_probe map                  the device map, from rank 0
//   launch_probe signal RANK          one rank gets SIGTERM in step 100; status 75 if all
//                                     ranks stop after the same step
#include <Kokkos_Core.hpp>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "kan/error.hpp"
#include "parallel/communicator.hpp"
#include "parallel/device_map.hpp"
#include "parallel/launch.hpp"
#include "parallel/reducer.hpp"
#include "parallel/signals.hpp"

namespace {

using kan::Code;
using kan::Error;

int signal_run(kan::parallel::Communicator& all, int target) {
  const kan::parallel::SignalHandlers handlers;
  kan::parallel::GradientReducer<float> reducer(all, 100);
  std::int64_t step = 0;
  kan::parallel::LaneOut out;
  for (; step < 10000 && !out.stop.signal_stop; ++step) {
    if (step == 100 && all.rank() == target) std::raise(SIGTERM);
    kan::parallel::LaneIn in;
    in.stop.signal_stop = kan::parallel::take_signals().stop;
    out = reducer.reduce(kan::Exec(), in);
  }
  for (const std::int64_t other : all.allgather(step)) {
    if (other != 101) {
      throw Error(Code::communication, "stopped after step " + std::to_string(other));
    }
  }
  return static_cast<int>(Code::stopped);
}

int run(const std::vector<std::string>& words) {
  kan::parallel::Launch launch;
  const std::string mode = words.empty() ? "info" : words[0];
  std::vector<std::string> flags;
  int threads = 0;
  for (std::size_t i = 1; i < words.size() && mode == "info"; ++i) {
    if (words[i].starts_with("--")) {
      flags.push_back(words[i]);
    } else {
      threads = std::stoi(words[i]);
    }
  }
  launch.start_kokkos(threads, flags);
  kan::parallel::CommunicatorOptions options;
  if (mode == "serial" || mode == "nccl") options.backend = mode;
  std::string reason;
  const auto all = kan::parallel::make_communicator(options, &reason);
  if (mode == "fail" && all->rank() == std::stoi(words[1])) {
    throw Error(static_cast<Code>(std::stoi(words[2])), "probe fails");
  }
  if (mode == "fail_all") {
    throw Error(static_cast<Code>(std::stoi(words[1])), "all probes fail");
  }
  if (mode == "map") {
    const auto places = all->allgather(kan::parallel::this_place(launch));
    if (all->rank() == 0) std::printf("%s\n", kan::parallel::map_text(places).c_str());
    return 0;
  }
  all->barrier();
  if (mode == "signal") return signal_run(*all, std::stoi(words[1]));
  if (all->rank() == 0) {
    std::printf("%s, nodes=%d local_ranks=%d threads=%d notes=%d mpi=%s\n",
                reason.c_str(), launch.nodes(), launch.local_ranks(), launch.threads(),
                static_cast<int>(launch.notes().size()), launch.mpi_version().c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    return kan::parallel::fail("launch_probe", error);
  }
}
