// The table of nccl_api.hpp over NCCL and the CUDA runtime. Compiled only with
// KAN_ENABLE_NCCL; plain C++, so any host compiler will do.
#include <cuda_runtime.h>
#include <nccl.h>

#include "parallel/nccl_api.hpp"

namespace kan::parallel {
namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 20, 0),
              "NCCL 2.20 or newer is needed");
static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));
static_assert(ncclSuccess == int(NcclResult::success) &&
              ncclUnhandledCudaError == int(NcclResult::cuda_error) &&
              ncclSystemError == int(NcclResult::system_error) &&
              ncclInternalError == int(NcclResult::internal_error) &&
              ncclInvalidArgument == int(NcclResult::invalid_argument) &&
              ncclInvalidUsage == int(NcclResult::invalid_usage) &&
              ncclRemoteError == int(NcclResult::remote_error) &&
              ncclInProgress == int(NcclResult::in_progress));

NcclResult as_result(ncclResult_t result) { return static_cast<NcclResult>(result); }
ncclComm_t native(NcclComm* comm) { return reinterpret_cast<ncclComm_t>(comm); }
cudaEvent_t native(NcclEvent* event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

class CudaNccl final : public NcclApi {
 public:
  int version() override {
    int version = 0;
    ncclGetVersion(&version);
    return version;
  }
  int built_version() override { return NCCL_VERSION_CODE; }

  NcclResult unique_id(NcclId& id) override {
    return as_result(ncclGetUniqueId(reinterpret_cast<ncclUniqueId*>(&id)));
  }
  NcclResult start_init(NcclComm** comm, int ranks, const NcclId& id, int rank) override {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(
        &made, ranks, reinterpret_cast<const ncclUniqueId&>(id), rank, &config);
    *comm = reinterpret_cast<NcclComm*>(made);
    return as_result(result);
  }
  NcclResult state(NcclComm* comm) override {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(native(comm), &state);
    return as_result(asked == ncclSuccess ? state : asked);
  }
  NcclResult start_sum(NcclComm* comm, void* data, std::size_t n, NcclElement element,
                       void* stream) override {
    const ncclDataType_t type =
        element == NcclElement::float32 ? ncclFloat32 : ncclFloat64;
    return as_result(
        ncclAllReduce(data, data, n, type, ncclSum, native(comm), as_stream(stream)));
  }
  NcclResult finalize(NcclComm* comm) override {
    return as_result(ncclCommFinalize(native(comm)));
  }
  NcclResult destroy(NcclComm* comm) override {
    return as_result(ncclCommDestroy(native(comm)));
  }
  NcclResult abort(NcclComm* comm) override {
    return as_result(ncclCommAbort(native(comm)));
  }

  NcclResult create_event(NcclEvent** event) override {
    cudaEvent_t made = nullptr;
    const NcclResult result =
        checked(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    *event = reinterpret_cast<NcclEvent*>(made);
    return result;
  }
  NcclResult record(NcclEvent* event, void* stream) override {
    return checked(cudaEventRecord(native(event), as_stream(stream)));
  }
  NcclResult query(NcclEvent* event) override {
    const cudaError_t status = cudaEventQuery(native(event));
    return status == cudaErrorNotReady ? NcclResult::in_progress : checked(status);
  }
  void destroy_event(NcclEvent* event) override { cudaEventDestroy(native(event)); }

  std::string error_text(NcclResult result, NcclComm* comm) override {
    std::string text = ncclGetErrorString(static_cast<ncclResult_t>(result));
    const char* const last = ncclGetLastError(native(comm));
    if (last != nullptr && *last != '\0') text += std::string(", ") + last;
    if (cuda_ != cudaSuccess) text += std::string(", ") + cudaGetErrorString(cuda_);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

 private:
  NcclResult checked(cudaError_t status) {
    if (status == cudaSuccess) return NcclResult::success;
    cuda_ = status;
    return NcclResult::cuda_error;
  }
  cudaError_t cuda_ = cudaSuccess;  ///< the last failure of the runtime itself
};

}  // namespace

NcclApi& nccl_api() {
  static CudaNccl* const api = new CudaNccl;  // lives as long as the process
  return *api;
}

}  // namespace kan::parallel
