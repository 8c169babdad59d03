#include "run/start_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/info.hpp"
#include "kan/error.hpp"
#include "kan/types.hpp"
#include "parallel/agreement.hpp"
#if !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP)
#include "kan/simd.hpp"
#endif

namespace kan::run {

int vector_bytes() {
#ifdef KAN_VECTOR_BYTES
  return KAN_VECTOR_BYTES;
#else
  return 0;
#endif
}

void check_command_line(parallel::Communicator& world, const io::CommandLine& command) {
  const parallel::Fact fact{"command line",
                            fmt::format("'{}'", fmt::join(command.arguments, " "))};
  if (const auto found = parallel::difference(world, fact))
    throw Error(Code::usage,
                found->text() + ": start all ranks with the same deck and arguments");
}

std::vector<std::string> check_program(parallel::Communicator& world,
                                       const parallel::Launch& launch,
                                       bool reproducible) {
  parallel::Fact cpu = parallel::cpu_fact();
  cpu.remark = io::device();
  const std::vector<parallel::Fact> facts = {
      parallel::executable_fact(world, launch.node_of()[world.rank()]),
      {"version", fmt::format("{} of {}", io::code_version(), io::git_hash()),
       io::compiler()},
      {"host vectors", fmt::format("{} bytes", vector_bytes())},
      cpu};
  std::vector<std::string> warnings;
  for (const parallel::Difference& found : parallel::differences(world, facts))
    warnings.push_back(found.text());
  if (reproducible && !warnings.empty())
    throw Error(Code::launch,
                warnings.front() +
                    ": parallel/reproducible = true needs one program on CPUs of one "
                    "kind; start the same file on such nodes, or set it to false");
  return warnings;
}

void check_data(parallel::Communicator& communicator, const io::Data& data) {
  const parallel::Fact fact{"digest of the data", data.digest,
                            fmt::format("{} training rows", data.train.rows)};
  if (const auto found = parallel::difference(communicator, fact))
    throw Error(Code::data, found->text() + ": do all ranks see the same data/file?");
}

}  // namespace kan::run
