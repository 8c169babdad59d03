#include "parallel/gpu_aware.hpp"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "kan/error.hpp"
#include "kan/types.hpp"
#include "parallel/mpi_check.hpp"

namespace kan::parallel {

GpuSupport mpi_gpu_support() {
#if defined(KOKKOS_ENABLE_HIP)
#if defined(OMPI_HAVE_MPI_EXT_ROCM) && OMPI_HAVE_MPI_EXT_ROCM
  return MPIX_Query_rocm_support() == 1 ? GpuSupport::yes : GpuSupport::no;
#elif defined(MPIX_GPU_SUPPORT_HIP)
  int supported = 0;
  MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &supported);
  return supported != 0 ? GpuSupport::yes : GpuSupport::no;
#endif
#elif defined(OMPI_HAVE_MPI_EXT_CUDA) && OMPI_HAVE_MPI_EXT_CUDA
  return MPIX_Query_cuda_support() == 1 ? GpuSupport::yes : GpuSupport::no;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int supported = 0;
  MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported);
  return supported != 0 ? GpuSupport::yes : GpuSupport::no;
#endif
  return GpuSupport::unknown;
}

bool sum_in_place_works(MPI_Comm comm) {
  constexpr int kCount = 1000;
  int rank = 0, size = 1;
  KAN_CHECK_MPI(MPI_Comm_rank(comm, &rank));
  KAN_CHECK_MPI(MPI_Comm_size(comm, &size));
  // Small integers: sums are exact in any order.
  const View1<float> values("kan::parallel::gpu_aware::values", kCount);
  const auto host = Kokkos::create_mirror_view(values);
  for (int i = 0; i < kCount; ++i) host(i) = float(rank + i % 7 + 1);
  Kokkos::deep_copy(values, host);
  int good = 1;
  // Blocking: libraries that sum device buffers may do so only in this call.
  if (MPI_Allreduce(MPI_IN_PLACE, values.data(), kCount, MPI_FLOAT, MPI_SUM, comm) !=
      MPI_SUCCESS)
    good = 0;
  Kokkos::deep_copy(host, values);
  for (int i = 0; i < kCount; ++i) {
    const double sum = size * (size - 1) / 2.0 + size * (i % 7 + 1.0);
    if (host(i) != float(sum)) good = 0;
  }
  KAN_CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, comm));
  return good == 1;
}

bool decide_gpu_aware(GpuAware mode, bool host_execution, GpuSupport support,
                      const std::function<bool()>& test, std::string& reason) {
  if (mode == GpuAware::off) {
    reason = "parallel/gpu_aware = off";
    return false;
  }
  if (host_execution) {
    reason = "kernels run on the host";
  } else if (support == GpuSupport::no) {
    reason = "the MPI library says that it does not take device memory";
  } else if (support == GpuSupport::unknown && mode == GpuAware::automatic) {
    reason = "the MPI library does not say whether it takes device memory";
  } else if (test()) {
    reason = "a sum of device memory through MPI is right";
    return true;
  } else {
    reason = "a sum of device memory through MPI came out wrong";
  }
  if (mode == GpuAware::automatic) return false;
  throw Error(Code::device, "parallel/gpu_aware = on: " + reason +
                                "; set it to auto or off (sums are then copied through "
                                "the host), or use an MPI library built for the GPU");
}

bool gpu_aware(MPI_Comm comm, GpuAware mode, std::string& reason) {
  // The least willing of the ranks, should their libraries differ.
  const GpuSupport own = mpi_gpu_support();
  int willing = own == GpuSupport::yes ? 2 : own == GpuSupport::unknown ? 1 : 0;
  KAN_CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, &willing, 1, MPI_INT, MPI_MIN, comm));
  const GpuSupport all = willing == 2   ? GpuSupport::yes
                         : willing == 1 ? GpuSupport::unknown
                                        : GpuSupport::no;
  return decide_gpu_aware(
      mode, kHostExecution, all, [comm] { return sum_in_place_works(comm); }, reason);
}

}  // namespace kan::parallel
