// The factories behind make_communicator: one per backend, each defined in the backend's
// own file. Only the table in communicator.cpp and the backends include this header.
#pragma once

#include <memory>

#include "parallel/communicator.hpp"

namespace kan::parallel {

/// One process on its own (serial.cpp).
std::unique_ptr<Communicator> make_serial(const CommunicatorOptions& options);

#ifdef KAN_HAVE_MPI
/// All ranks of the MPI world (mpi.cpp). MPI must be started; collective.
std::unique_ptr<Communicator> make_mpi(const CommunicatorOptions& options);
/// The same, but silent(): everything but the sums of gradients (mpi.cpp).
std::unique_ptr<Communicator> make_null(const CommunicatorOptions& options);
#endif

/// All ranks, device memory through NCCL (nccl.cpp). Known to every build: throws code 8
/// where there is no NCCL or no GPU, else as make_nccl of nccl.hpp. Collective.
std::unique_ptr<Communicator> make_nccl(const CommunicatorOptions& options);

/// Ranks of the MPI world; 1 without MPI, or before it is started.
int world_size();

}  // namespace kan::parallel
