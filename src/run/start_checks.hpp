// What all ranks are asked at the start: are they the same program, given the same
// command line, on CPUs that compute alike? One that differs would train another model,
// or spoil the bits that reproducible mode promises.
#pragma once

#include <string>
#include <vector>

#include "io/command_line.hpp"
#include "io/dataset/dataset.hpp"
#include "parallel/communicator.hpp"
#include "parallel/launch.hpp"

namespace kan::run {

/// Bytes of the vectors that host kernels compute with; 0 in a build for GPUs.
int vector_bytes();

/// Collective. Throws code 2 where a rank was given other arguments than rank 0.
void check_command_line(parallel::Communicator& world, const io::CommandLine& command);

/// Collective. Compares executable, version, vector width and CPU features. Ranks that
/// differ: code 9 with reproducible, otherwise warnings, the same on all ranks.
std::vector<std::string> check_program(parallel::Communicator& world,
                                       const parallel::Launch& launch, bool reproducible);

/// Collective. Throws code 3 where a rank holds other rows than rank 0.
void check_data(parallel::Communicator& communicator, const io::Data& data);

}  // namespace kan::run
