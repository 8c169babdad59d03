// A stand-in for NCCL, for tests: the table of nccl_api.hpp over host memory and MPI. It
// says nothing about NCCL itself; it drives the state machine above the table through
// what a library without guarantees may do, as a script says: calls that stay in
// progress, sums that never finish, errors in the background, an abort that does not
// return.
//
// "Streams" are ignored: sums finish in the order they were started. After a test in
// which ranks gave up, release() lets the sums that were held back go, so that MPI is
// left tidy.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "parallel/nccl_api.hpp"

class NcclStandIn final : public kan::parallel::NcclApi {
 public:
  using Result = kan::parallel::NcclResult;

  NcclStandIn();
  ~NcclStandIn() override;

  /// The script of this rank. Polls: how often state() says in progress first.
  int init_polls = 0, sum_polls = 0, finalize_polls = 0;
  bool init_never = false;              ///< the start goes on for ever
  bool finalize_never = false;          ///< so does the end
  bool hold_sums = false;               ///< this rank's sums are not sent
  bool abort_hangs = false;             ///< until release()
  Result id_result = Result::success;   ///< of unique_id
  Result background = Result::success;  ///< what state() says once a sum was started
  int loaded_version = 22809;

  /// What was called on this rank.
  int ids = 0, inits = 0, sums = 0, states = 0, finalized = 0, destroyed = 0, events = 0;
  std::atomic<int> aborted = 0, returned = 0;  ///< calls of abort, and their ends

  /// Collective over the ranks of what was aborted; nothing is left afterwards.
  void release();

  int version() override { return loaded_version; }
  int built_version() override { return 22809; }
  Result unique_id(kan::parallel::NcclId& id) override;
  Result start_init(kan::parallel::NcclComm** comm, int ranks,
                    const kan::parallel::NcclId& id, int rank) override;
  Result state(kan::parallel::NcclComm* comm) override;
  Result start_sum(kan::parallel::NcclComm* comm, void* data, std::size_t n,
                   kan::parallel::NcclElement element, void* stream) override;
  Result finalize(kan::parallel::NcclComm* comm) override;
  Result destroy(kan::parallel::NcclComm* comm) override;
  Result abort(kan::parallel::NcclComm* comm) override;
  Result create_event(kan::parallel::NcclEvent** event) override;
  Result record(kan::parallel::NcclEvent* event, void* stream) override;
  Result query(kan::parallel::NcclEvent* event) override;
  void destroy_event(kan::parallel::NcclEvent* event) override;
  std::string error_text(Result result, kan::parallel::NcclComm* comm) override;

 private:
  struct Comm;
  struct Sum;
  void send(Sum& sum);
  std::vector<std::unique_ptr<Comm>> comms_;
  std::vector<std::unique_ptr<Sum>> sums_;
  std::atomic<bool> let_go_ = false;
};
