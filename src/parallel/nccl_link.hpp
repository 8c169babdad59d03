// One rank's end of an NCCL communicator: a state machine over the table of nccl_api.hpp.
//
//   connect --in progress--> connected --start_sum, wait--> connected --close--> none
//      any failure, or a call that outlasts the deadline: abort --> none, Error(6)
//
// NCCL itself waits for ever for a rank that is gone, and a peer lost on the same node
// may show no asynchronous error. So nothing here blocks: communicators are non-blocking,
// finished work is seen by polling an event, and each wait looks at the communicator's
// state and at the clock. Whoever gives up aborts its communicator, so that its kernels
// end; the program then ends the job, and with it the other ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "parallel/nccl_api.hpp"

namespace kan::parallel {

class NcclLink {
 public:
  /// seconds: how long a call may wait for other ranks. who: this rank in messages, as
  /// "rank 1 of 4 (host, GPU 0000:3b:00.0)". api must outlive the process's last abort.
  NcclLink(NcclApi& api, double seconds, std::string who);
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  /// Closes, or aborts where an exception is passing: then the others may not come.
  ~NcclLink();

  /// Collective: returns when this rank is connected to all others.
  void connect(const NcclId& id, int rank, int ranks);
  /// Puts a sum, in place, into the stream and returns; all ranks in the same order.
  void start_sum(void* data, std::size_t n, NcclElement element, void* stream,
                 std::int64_t step);
  /// Returns when what was started last is finished. step: the update under way, for
  /// messages.
  void wait(std::int64_t step);
  /// Local: one look at what was started. Throws where it has failed, or where the caller
  /// has waited for longer than the deadline.
  void check(double seconds_waited, std::int64_t step);
  /// Gives up without waiting for anybody; never throws. Where the library does not come
  /// back from it, the process is set to end by SIGALRM in 20 s.
  void abort() noexcept;

 private:
  void settle(NcclResult result, const std::string& what, std::int64_t step);
  void close() noexcept;
  [[noreturn]] void fail(const std::string& what, NcclResult result, std::int64_t step);

  NcclApi& api_;
  double seconds_;
  std::string who_;
  NcclComm* comm_ = nullptr;
  NcclEvent* event_ = nullptr;
};

/// "2.28.9" of 22809.
std::string nccl_version_text(int version);

/// Throws code 8 where the library is older than 2.20: what is called here, and what it
/// prints of its choices, is not in it.
void require_nccl_version(NcclApi& api);

}  // namespace kan::parallel
