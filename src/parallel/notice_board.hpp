// Requests to stop or to save, across rank groups. A group learns of its own requests
// with the gradient (control_lane.hpp); groups step at their own pace, so what one of
// them learns, or a rank that belongs to none, goes to the others as a small message that
// nobody waits for. The first rank of each group looks for such messages between two of
// its steps and raises their flags in its own lane: the group stops at one step.
//
// Ranks without work wait in wait_for_all(), where they sleep and pass on their signals.
// In a job of one rank, and in a build without MPI, there is nobody to tell.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/control_lane.hpp"

namespace kan::parallel {

class NoticeBoard {
 public:
  /// Collective over all ranks of the job. readers: the first rank of each group, the
  /// same list everywhere.
  explicit NoticeBoard(std::vector<int> readers);
  NoticeBoard(const NoticeBoard&) = delete;
  NoticeBoard& operator=(const NoticeBoard&) = delete;
  /// Collective, unless an exception is passing.
  ~NoticeBoard();

  /// On a reader: what others have shared. Stops stay, a request to save comes once.
  /// Looks for messages at most ten times a second, so it may be asked at every step.
  /// Local.
  StopFlags read();
  /// Tells all readers what is new in flags: a stop that was neither shared nor read
  /// before, a request to save unless it is the one that read() gave last. output_now
  /// stays in its group. Local; nobody waits.
  void share(const StopFlags& flags);
  /// Returns when all ranks of the job have called it and every message has arrived; the
  /// rank sleeps meanwhile and shares what seen() returns, which is asked at every look.
  /// The board can be used again after that. Throws code 6 where messages fail.
  /// Also after `seconds`, where they are not 0: for a rank that the others should join
  /// soon.
  void wait_for_all(const std::function<StopFlags()>& seen, double seconds = 0);

 private:
  struct Mail;  ///< the MPI part
  std::vector<int> readers_;
  std::unique_ptr<Mail> mail_;
  StopFlags read_, shared_;  ///< stops so far
  bool echo_ = false;        ///< read() has given a request to save that share() will see
};

}  // namespace kan::parallel
