// The backend over NCCL: sums of Views in device memory go through NCCL on the queue of
// their execution space; everything in host memory goes through an inner communicator,
// which also brings the ranks together before NCCL is called. One rank per GPU.
//
// Before the first NCCL call the ranks gather their devices: two ranks on one GPU, which
// NCCL refuses with a line that names neither, are found here.
#pragma once

#include <memory>

#include "parallel/communicator.hpp"
#include "parallel/device_map.hpp"
#include "parallel/nccl_api.hpp"

namespace kan::parallel {

/// Collective over inner. place: where this rank runs. Throws code 9 for two ranks on one
/// device, 8 for a library that is too old, 6 where NCCL does not start within
/// options.timeout. For tests; programs call make_communicator.
std::unique_ptr<Communicator> make_nccl(NcclApi& api, std::unique_ptr<Communicator> inner,
                                        const RankPlace& place,
                                        const CommunicatorOptions& options);

}  // namespace kan::parallel
