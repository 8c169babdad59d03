// Waiting for other ranks with a deadline. MPI's own blocking calls wait for ever for a
// rank that is stopped, swapped out, or dead where the launcher leaves the others alive;
// so every message of this code is started without blocking and waited for here.
//
// When the time is up, or another rank says that its time is up, the ranks that wait tell
// each other so on a communicator of their own (the alarm: one small message to every
// rank). Who has not been heard after a moment of grace did not arrive; the error names
// these ranks. An alarm is never taken back: the job ends.
#pragma once

#ifdef KAN_HAVE_MPI
#include <mpi.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kan::parallel {

class MpiDeadline {
 public:
  /// Collective over comm. seconds: how long a call may wait.
  MpiDeadline(MPI_Comm comm, double seconds);
  MpiDeadline(const MpiDeadline&) = delete;
  MpiDeadline& operator=(const MpiDeadline&) = delete;
  ~MpiDeadline();

  double seconds() const { return seconds_; }
  /// Returns when all requests are complete; statuses: as many as requests, or none.
  /// step: the update under way, for the message. Throws code 6 when ranks are missing or
  /// the library reports a failure.
  void wait(std::span<MPI_Request> requests, std::span<MPI_Status> statuses,
            std::int64_t step);

 private:
  bool alarmed();
  [[noreturn]] void report(std::int64_t step, bool late);

  MPI_Comm alarm_ = MPI_COMM_NULL;
  MPI_Request listening_ = MPI_REQUEST_NULL;
  std::int64_t heard_step_ = 0;  ///< what the alarm under way says
  double seconds_;
  int rank_ = 0, size_ = 1;
  std::vector<char> waiting_;      ///< per rank: said that it waits
  std::vector<MPI_Request> sent_;  ///< alarms of this rank
  std::int64_t sent_step_ = 0;
};

}  // namespace kan::parallel
#endif
