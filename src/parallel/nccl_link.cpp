// Waits poll at full speed for 20 ms, then doze between polls, as those of
// mpi_deadline.cpp: a sum takes microseconds, a rank that writes a file takes seconds.
#include "parallel/nccl_link.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "kan/error.hpp"

namespace kan::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kPatience = 0.02;  // seconds of polling before the rank dozes
constexpr auto kDoze = std::chrono::microseconds(50);
constexpr double kCloseSeconds = 10;  // results are written by then: why wait long
constexpr unsigned kLastResort = 20;  // seconds
constexpr std::int64_t kBeforeStep = -1;

std::string seconds_text(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

/// Time that has passed since a wait began; polls at full speed first.
class Wait {
 public:
  /// Seconds so far; lets others work once patience is over.
  double pause() {
    const double waited = Seconds(Clock::now() - start_).count();
    if (waited > kPatience) std::this_thread::sleep_for(kDoze);
    return waited;
  }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace

std::string nccl_version_text(int version) {
  // 2.8 and older: two digits less.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(version % 100);
}

void require_nccl_version(NcclApi& api) {
  constexpr int kOldest = 22000;
  const int found = api.version();
  if (found >= kOldest) return;
  throw Error(Code::device,
              "parallel/backend = nccl: the NCCL library found at run time is " +
                  nccl_version_text(found) + ", 2.20 or newer is needed (built with " +
                  nccl_version_text(api.built_version()) +
                  "): load a newer module, or look at LD_LIBRARY_PATH");
}

NcclLink::NcclLink(NcclApi& api, double seconds, std::string who)
    : api_(api), seconds_(seconds), who_(std::move(who)) {
  KAN_REQUIRE(seconds > 0, "CommunicatorOptions::timeout must be positive");
}

NcclLink::~NcclLink() {
  if (std::uncaught_exceptions() > 0) {
    abort();
  } else {
    close();
  }
  if (event_ != nullptr) api_.destroy_event(event_);
}

/// Waits until a call that result is of is no longer in progress.
void NcclLink::settle(NcclResult result, const std::string& what, std::int64_t step) {
  Wait wait;
  while (result == NcclResult::in_progress && wait.pause() < seconds_) {
    result = api_.state(comm_);
  }
  if (result != NcclResult::success) fail(what, result, step);
}

void NcclLink::connect(const NcclId& id, int rank, int ranks) {
  const char* const what = "the start of NCCL";
  settle(api_.start_init(&comm_, ranks, id, rank), what, kBeforeStep);
  settle(api_.create_event(&event_), what, kBeforeStep);
}

void NcclLink::start_sum(void* data, std::size_t n, NcclElement element, void* stream,
                         std::int64_t step) {
  KAN_REQUIRE(comm_ != nullptr, "NCCL was aborted: nothing can be summed any more");
  const char* const what = "a sum over NCCL";
  settle(api_.start_sum(comm_, data, n, element, stream), what, step);
  settle(api_.record(event_, stream), what, step);
}

void NcclLink::wait(std::int64_t step) {
  KAN_REQUIRE(comm_ != nullptr, "NCCL was aborted: there is nothing to wait for");
  const char* const what = "a sum over NCCL";
  for (Wait wait;;) {
    const NcclResult done = api_.query(event_);
    // Also where the event has passed: a kernel that was told to stop passes it too.
    const NcclResult state = api_.state(comm_);
    if (state != NcclResult::success && state != NcclResult::in_progress) {
      fail(what, state, step);
    }
    if (done == NcclResult::success) return;
    if (done != NcclResult::in_progress || wait.pause() > seconds_) {
      fail(what, done, step);
    }
  }
}

void NcclLink::check(double seconds_waited, std::int64_t step) {
  KAN_REQUIRE(comm_ != nullptr, "NCCL was aborted: there is nothing to wait for");
  const NcclResult state = api_.state(comm_);
  const bool good = state == NcclResult::success || state == NcclResult::in_progress;
  if (!good) fail("a sum over NCCL", state, step);
  if (seconds_waited > seconds_) fail("a sum over NCCL", NcclResult::in_progress, step);
}

void NcclLink::fail(const std::string& what, NcclResult result, std::int64_t step) {
  const bool running = step != kBeforeStep;
  std::string text = running ? "step " + std::to_string(step) + ": " : std::string();
  text += what + " failed on " + who_;
  text += result == NcclResult::in_progress
              ? ": not finished within " + seconds_text(seconds_) +
                    " (parallel/timeout), so a rank is stopped, lost or busy for longer "
                    "than that"
              : ": " + api_.error_text(result, comm_);
  text +=
      "; NCCL_DEBUG=INFO shows what NCCL does, NCCL_SOCKET_IFNAME names the network "
      "interface it shall use";
  if (running) text += "; go on from the last checkpoint with -r latest";
  abort();
  throw Error(Code::communication, text);
}

void NcclLink::abort() noexcept {
  NcclComm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  bool back = false;
  try {
    // In a thread of its own: aborting waits for kernels, and with some versions for the
    // other ranks.
    std::packaged_task<NcclResult()> task(
        [&api = api_, comm] { return api.abort(comm); });
    std::future<NcclResult> done = task.get_future();
    std::thread(std::move(task)).detach();
    const Seconds grace(std::min(seconds_, kCloseSeconds));
    back = done.wait_for(grace) == std::future_status::ready;
  } catch (const std::exception&) {
    // No thread to be had.
  }
  if (back) return;
  // Freeing device memory would wait for the kernel that hangs, before main can report.
  std::fprintf(stderr,
               "kan: NCCL does not end its work on %s; this process ends in %u s\n",
               who_.c_str(), kLastResort);
  ::alarm(kLastResort);
}

void NcclLink::close() noexcept {
  if (comm_ == nullptr) return;
  NcclResult result = api_.finalize(comm_);
  const double limit = std::min(seconds_, kCloseSeconds);
  for (Wait wait; result == NcclResult::in_progress && wait.pause() < limit;) {
    result = api_.state(comm_);
  }
  if (result != NcclResult::success) {
    abort();  // a destructor cannot report, and the results do not need it any more
    return;
  }
  api_.destroy(std::exchange(comm_, nullptr));
}

}  // namespace kan::parallel
