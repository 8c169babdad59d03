// The nccl backend's state machine over the real NCCL, one rank. With a GPU: a sum must
// come out right. Without one: NCCL is loaded, says its version, and its refusal to start
// must arrive as error 6 with NCCL's own words. Built by scripts/nccl_check.
#include <cuda_runtime.h>

#include <array>
#include <cstdio>

#include "kan/error.hpp"
#include "parallel/nccl_link.hpp"

namespace {

using namespace kan::parallel;

void sum_on_device(NcclLink& link) {
  const std::array<float, 3> values{1.5F, -2.0F, 1e30F};
  std::array<float, 3> result{};
  void* data = nullptr;
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaMalloc(&data, sizeof values);
  cudaMemcpyAsync(data, values.data(), sizeof values, cudaMemcpyHostToDevice, stream);
  for (int i = 0; i < 100; ++i) {
    link.start_sum(data, values.size(), NcclElement::float32, stream, i);
    link.wait(i);
  }
  cudaMemcpyAsync(result.data(), data, sizeof values, cudaMemcpyDeviceToHost, stream);
  const cudaError_t status = cudaStreamSynchronize(stream);
  if (status != cudaSuccess || result != values)
    throw kan::Error(kan::Code::numerical, "the sum over one rank is not its own value");
  cudaFree(data);
  cudaStreamDestroy(stream);
}

int run() {
  NcclApi& api = nccl_api();
  std::printf("NCCL %s, built with %s\n", nccl_version_text(api.version()).c_str(),
              nccl_version_text(api.built_version()).c_str());
  require_nccl_version(api);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) devices = 0;
  try {
    NcclLink link(api, 30, "rank 0 of 1");
    NcclId id;
    if (const NcclResult result = api.unique_id(id); result != NcclResult::success)
      throw kan::Error(kan::Code::communication, api.error_text(result, nullptr));
    link.connect(id, 0, 1);
    sum_on_device(link);
  } catch (const kan::Error& error) {
    std::printf("%d GPUs, error %d: %s\n", devices, static_cast<int>(error.code()),
                error.what());
    return devices == 0 && error.code() == kan::Code::communication ? 0 : 1;
  }
  std::printf("%d GPUs, 100 sums over one rank are right\n", devices);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const kan::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
