// The calls of NCCL and of the CUDA runtime that the nccl backend needs, as a table with
// opaque types: no header of either library is seen here. nccl_cuda.cpp fills the table
// with the libraries; tests fill it with a stand-in over host memory, so that the state
// machine above it (nccl_link.hpp) runs on machines without a GPU.
//
// Return values are NCCL's own numbers. in_progress is not an error: the call goes on in
// the background, and state() (or query(), for an event) says when it is done.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace kan::parallel {

enum class NcclResult : int {
  success = 0,
  cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};

enum class NcclElement { float32, float64 };

/// Rank 0 makes one, all ranks of a communicator start with it.
struct NcclId {
  std::array<std::byte, 128> bytes{};
};

struct NcclComm;   ///< the library's communicator
struct NcclEvent;  ///< a point in a stream

/// abort() may be called from another thread while a call on the same communicator is
/// under way; a table must live as long as the process for that. All else is for one
/// thread.
class NcclApi {
 public:
  virtual ~NcclApi() = default;

  /// Of the library that was loaded, and of the header it was built with: 22809
  /// is 2.28.9.
  virtual int version() = 0;
  virtual int built_version() = 0;

  virtual NcclResult unique_id(NcclId& id) = 0;
  /// A non-blocking communicator; *comm may be null where this fails.
  virtual NcclResult start_init(NcclComm** comm, int ranks, const NcclId& id,
                                int rank) = 0;
  /// What goes on, or went wrong, in the background.
  virtual NcclResult state(NcclComm* comm) = 0;
  /// Puts a sum over ranks, in place, into the stream: n values on the device.
  virtual NcclResult start_sum(NcclComm* comm, void* data, std::size_t n, NcclElement,
                               void* stream) = 0;
  virtual NcclResult finalize(NcclComm* comm) = 0;
  virtual NcclResult destroy(NcclComm* comm) = 0;
  virtual NcclResult abort(NcclComm* comm) = 0;

  virtual NcclResult create_event(NcclEvent** event) = 0;
  /// Puts the event into the stream, behind what is in it.
  virtual NcclResult record(NcclEvent* event, void* stream) = 0;
  /// success: the stream has passed the event.
  virtual NcclResult query(NcclEvent* event) = 0;
  virtual void destroy_event(NcclEvent* event) = 0;

  /// One line about a result, with the library's last words where it has some; comm may
  /// be null.
  virtual std::string error_text(NcclResult result, NcclComm* comm) = 0;
};

/// The table over the libraries, one a process. Throws code 8 in a build without them.
NcclApi& nccl_api();

}  // namespace kan::parallel
