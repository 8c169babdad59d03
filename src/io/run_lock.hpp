// The lock that keeps a second job out of a run directory: NAME.lock, made exclusively
// with its text already in it (a file of our own, linked to the name; O_EXCL where the
// file system has no links), holding host, process, its start time, boot and job.
//
// A lock is stale, and is taken over with a note, where its owner is proved dead: same
// host and another boot; same host and no such process (or one that started at another
// time); same host and the kernel's flock on the file, which the owner held, is free
// (this one looks through containers, where process numbers mean nothing); or the same
// batch job in an earlier requeue. In every other case the owner may live: Code::launch,
// naming it.
#pragma once

#include <cstdint>
#include <string>

namespace kan::io {

/// What a lock file says of its owner.
struct LockOwner {
  std::string host;
  std::string boot;           ///< the kernel's boot id
  std::string pid_namespace;  ///< where pid counts
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  ///< clock ticks after boot, so that a reused pid shows
  std::string job;               ///< batch job, empty outside one
  std::int64_t requeue = 0;      ///< times the batch system has restarted the job
  bool flock = false;            ///< the owner holds the kernel's lock on the file

  static LockOwner self();
  static LockOwner parse(const std::string& text);
  std::string text() const;  ///< key=value lines
  std::string who() const;   ///< "process 12 on node3 (job 77)"
};

class RunLock {
 public:
  RunLock() = default;
  /// Takes the lock. Errors: Code::launch where another run holds it, Code::output where
  /// the file cannot be made.
  explicit RunLock(const std::string& path);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock() { release(); }
  /// Removes the file, where it is still ours.
  void release() noexcept;
  /// What happened when it was taken, to tell the user; empty where nothing did.
  const std::string& note() const { return note_; }

 private:
  bool try_make();
  void take_over();

  std::string path_, note_;
  int descriptor_ = -1;
};

}  // namespace kan::io
