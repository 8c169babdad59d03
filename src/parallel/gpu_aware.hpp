// Whether device memory may be handed to the MPI library. Many libraries are built
// without GPU support and crash on a device pointer, some say that they have it and do
// not; so the library is asked, and then tried on a small sum whose result is known.
//
//   mode       library says yes   says no    says nothing
//   automatic  try                no         no
//   on         try                error 8    try
// A sum that comes out wrong, or fails, means no, or error 8 with mode on. All ranks
// decide alike: the answer of the least willing one counts.
#pragma once

#ifdef KAN_HAVE_MPI
#include <mpi.h>

#include <functional>
#include <string>

#include "parallel/communicator.hpp"

namespace kan::parallel {

/// What the library says of itself.
enum class GpuSupport { no, yes, unknown };
GpuSupport mpi_gpu_support();

/// Collective over comm: sums a small buffer in kan::Memory through MPI, the pointer
/// handed over as it is, and compares the result on the host. The same on all ranks.
bool sum_in_place_works(MPI_Comm comm);

/// Collective over comm, after Kokkos was started. reason: why, in words, for the log.
/// Throws code 8 where mode is on and it cannot be had: always in a build whose kernels
/// run on the host.
bool gpu_aware(MPI_Comm comm, GpuAware mode, std::string& reason);

/// The decision alone. support: of all ranks; test: sum_in_place_works, called where the
/// table above says so.
bool decide_gpu_aware(GpuAware mode, bool host_execution, GpuSupport support,
                      const std::function<bool()>& test, std::string& reason);

}  // namespace kan::parallel
#endif
