#include "parallel/mpi_deadline.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include "kan/error.hpp"
#include "parallel/mpi_check.hpp"
#include "parallel/rank_list.hpp"

namespace kan::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kTagAlarm = 3;
constexpr int kPollsPerLook = 256;  // polls between two looks at the clock
constexpr double kPatience = 0.02;  // seconds of polling before the rank dozes
constexpr auto kDoze = std::chrono::microseconds(50);
// A rank that hears an alarm before this share of its own deadline came late: the others
// have missed it, and are the ones to say so.
constexpr double kEarly = 0.5;
constexpr auto kLeaveToOthers = std::chrono::seconds(10);

std::string seconds_text(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

MpiDeadline::MpiDeadline(MPI_Comm comm, double seconds) : seconds_(seconds) {
  KAN_REQUIRE(seconds > 0, "CommunicatorOptions::timeout must be positive");
  KAN_CHECK_MPI(MPI_Comm_dup(comm, &alarm_));
  KAN_CHECK_MPI(MPI_Comm_set_errhandler(alarm_, MPI_ERRORS_RETURN));
  KAN_CHECK_MPI(MPI_Comm_rank(alarm_, &rank_));
  KAN_CHECK_MPI(MPI_Comm_size(alarm_, &size_));
  waiting_.assign(static_cast<std::size_t>(size_), 0);
  waiting_[static_cast<std::size_t>(rank_)] = 1;
  KAN_CHECK_MPI(MPI_Irecv(&heard_step_, 1, MPI_INT64_T, MPI_ANY_SOURCE, kTagAlarm, alarm_,
                          &listening_));
}

MpiDeadline::~MpiDeadline() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // Freeing is collective: with an exception passing, the others may not come.
  if (finalized != 0 || std::uncaught_exceptions() > 0) return;
  MPI_Cancel(&listening_);
  MPI_Wait(&listening_, MPI_STATUS_IGNORE);
  MPI_Comm_free(&alarm_);
}

/// Whether a rank has said that it waits since the last call.
bool MpiDeadline::alarmed() {
  bool heard = false;
  for (;;) {
    int done = 0;
    MPI_Status status;
    KAN_CHECK_MPI(MPI_Test(&listening_, &done, &status));
    if (done == 0) return heard;
    heard = true;
    waiting_[static_cast<std::size_t>(status.MPI_SOURCE)] = 1;
    KAN_CHECK_MPI(MPI_Irecv(&heard_step_, 1, MPI_INT64_T, MPI_ANY_SOURCE, kTagAlarm,
                            alarm_, &listening_));
  }
}

void MpiDeadline::wait(std::span<MPI_Request> requests, std::span<MPI_Status> statuses,
                       std::int64_t step) {
  const int count = static_cast<int>(requests.size());
  MPI_Status* const status = statuses.empty() ? MPI_STATUSES_IGNORE : statuses.data();
  Clock::time_point start;
  bool timed = false, dozing = false;
  for (std::int64_t poll = 1;; ++poll) {
    int done = 0;
    KAN_CHECK_MPI(MPI_Testall(count, requests.data(), &done, status));
    if (done != 0) return;
    if (!dozing && poll % kPollsPerLook != 0) continue;
    const Clock::time_point now = Clock::now();
    if (!timed) start = now;
    timed = true;
    const double waited = Seconds(now - start).count();
    if (waited < kPatience) continue;
    const bool early = waited < kEarly * seconds_;
    if (waited > seconds_ || alarmed()) report(step, early);
    // The others are reading or writing a file, or share this core.
    dozing = true;
    std::this_thread::sleep_for(kDoze);
  }
}

void MpiDeadline::report(std::int64_t step, bool late) {
  const Clock::time_point start = Clock::now();
  const double grace = std::clamp(seconds_ / 4, 0.5, 5.0);
  sent_step_ = step;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    KAN_CHECK_MPI(MPI_Isend(&sent_step_, 1, MPI_INT64_T, r, kTagAlarm, alarm_,
                            &sent_.emplace_back(MPI_REQUEST_NULL)));
  }
  if (late) std::this_thread::sleep_for(kLeaveToOthers);
  const auto silent = [this] { return std::count(waiting_.begin(), waiting_.end(), 0); };
  while (silent() > 0 && Seconds(Clock::now() - start).count() < grace) {
    alarmed();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r) {
    if (waiting_[static_cast<std::size_t>(r)] == 0) missing.push_back(r);
  }
  const std::string where = "step " + std::to_string(step) + ": ";
  const std::string limit = " within " + seconds_text(seconds_) + " (parallel/timeout)";
  if (missing.empty()) {
    throw Error(Code::communication,
                where + "all " + std::to_string(size_) +
                    " ranks wait, and no message arrived" + limit +
                    ": the network may be down; go on from the last checkpoint with -r "
                    "latest");
  }
  throw Error(Code::communication,
              where + rank_list(missing, size_) + " did not arrive" + limit +
                  ": stopped, lost, or busy for longer than that; go on from the last "
                  "checkpoint with -r latest");
}

}  // namespace kan::parallel
