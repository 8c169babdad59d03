// Taking over is done by one contender at a time: the stale file is opened, locked in the
// kernel and read again, and only unlinked if the name still leads to the file that was
// judged. Whoever loses that race finds a new owner and starts over.
#include "io/run_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <utility>

#include "io/atomic_file.hpp"

namespace kan::io {

namespace {

constexpr int kAttempts = 20;
constexpr unsigned kPause = 50000;  // microseconds

std::string small_file(const std::string& path) {
  // Files under /proc have no size, so they are read in one piece here.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::array<char, 4096> text{};
  const ssize_t got = ::read(file, text.data(), text.size());
  ::close(file);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "";
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find_first_of(" \n"));
}

/// State letter and start time of a process; false where there is no such process.
bool process(std::int64_t pid, char& state, std::uint64_t& start) {
  const std::string stat = small_file(fmt::format("/proc/{}/stat", pid));
  // The name in parentheses may hold blanks and parentheses itself.
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return false;
  std::istringstream fields(stat.substr(end + 1));
  fields >> state;
  std::string skipped;
  for (int n = 4; n < 22; ++n) fields >> skipped;
  fields >> start;
  return !fields.fail();
}

std::string batch_job() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID",
                           "COBALT_JOBID", "JOB_ID"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

bool is_at(int descriptor, const std::string& path) {
  struct stat ours{}, named{};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

std::string read_from(int descriptor) {
  std::array<char, 4096> text{};
  const ssize_t got = ::pread(descriptor, text.data(), text.size(), 0);
  return got > 0 ? std::string(text.data(), static_cast<std::size_t>(got)) : "";
}

/// Why the owner is dead, or empty where it may live. kernel_free: its flock was to be
/// had.
std::string proof_of_death(const LockOwner& owner, const LockOwner& self,
                           bool kernel_free) {
  if (!owner.job.empty() && owner.job == self.job && owner.requeue < self.requeue) {
    return "the batch system has requeued the job since";
  }
  if (owner.host != self.host || owner.host.empty()) return "";
  if (!owner.boot.empty() && !self.boot.empty() && owner.boot != self.boot) {
    return "the host was booted since";
  }
  if (owner.flock && kernel_free) return "the process has ended";
  if (owner.pid_namespace != self.pid_namespace || owner.pid <= 0) return "";
  char state = 0;
  std::uint64_t start = 0;
  if (!process(owner.pid, state, start)) {
    return ::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH
               ? "the process has ended"
               : "";
  }
  if (state == 'Z' || state == 'X') return "the process has ended";
  if (owner.start_time != 0 && start != owner.start_time) {
    return "its process number belongs to another process now";
  }
  return "";
}

/// A descriptor of `path`, made exclusively, flocked and holding `owner`; -1 with errno.
int make_lock_file(const std::string& path, LockOwner owner) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return -1;
  // The text says whether the kernel's lock is held, so that is taken first.
  owner.flock = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const std::string text = owner.text();
  errno = EIO;
  if (::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()))
    return file;
  const int error = errno;
  ::unlink(path.c_str());
  ::close(file);
  errno = error;
  return -1;
}

}  // namespace

LockOwner LockOwner::self() {
  LockOwner owner;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) owner.host = host.data();
  owner.boot = first_word(small_file("/proc/sys/kernel/random/boot_id"));
  std::array<char, 128> space{};
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) > 0) {
    owner.pid_namespace = space.data();
  }
  owner.pid = ::getpid();
  char state = 0;
  process(owner.pid, state, owner.start_time);
  owner.job = batch_job();
  const char* requeue = std::getenv("SLURM_RESTART_COUNT");
  if (requeue != nullptr) owner.requeue = std::strtol(requeue, nullptr, 10);
  return owner;
}

LockOwner LockOwner::parse(const std::string& text) {
  LockOwner owner;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(0, equals), value = line.substr(equals + 1);
    if (key == "host") owner.host = value;
    if (key == "boot") owner.boot = value;
    if (key == "pid_namespace") owner.pid_namespace = value;
    if (key == "pid") owner.pid = std::strtoll(value.c_str(), nullptr, 10);
    if (key == "start_time") owner.start_time = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "job") owner.job = value;
    if (key == "requeue") owner.requeue = std::strtoll(value.c_str(), nullptr, 10);
    if (key == "flock") owner.flock = value == "1";
  }
  return owner;
}

std::string LockOwner::text() const {
  return fmt::format(
      "host={}\npid={}\njob={}\nrequeue={}\nboot={}\npid_namespace={}\nstart_time={}\n"
      "flock={}\n",
      host, pid, job, requeue, boot, pid_namespace, start_time, flock ? 1 : 0);
}

std::string LockOwner::who() const {
  if (host.empty() || pid <= 0) return "an unknown process";
  return fmt::format("process {} on {}{}", pid, host,
                     job.empty() ? "" : fmt::format(" (job {})", job));
}

RunLock::RunLock(const std::string& path) : path_(path) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_make()) return;
    take_over();
  }
  throw Error(Code::launch,
              fmt::format("{}: other runs keep taking this lock; start one run "
                          "per directory and name",
                          path_));
}

/// True where the lock is ours now, false where the name exists.
bool RunLock::try_make() {
  const LockOwner owner = LockOwner::self();
  const std::string own =
      fmt::format("{}.{}.{}{}", path_, owner.host, owner.pid, kTemporarySuffix);
  ::unlink(own.c_str());
  const int file = make_lock_file(own, owner);
  if (file < 0) throw output_error("make the run lock", own, errno);
  int error = ::link(own.c_str(), path_.c_str()) == 0 ? 0 : errno;
  ::unlink(own.c_str());
  if (error == 0) {
    descriptor_ = file;
    return true;
  }
  ::close(file);
  if (error == EPERM || error == ENOTSUP || error == ENOSYS || error == EMLINK) {
    descriptor_ = make_lock_file(path_, owner);
    if (descriptor_ >= 0) return true;
    error = errno;
  }
  // ENOENT: a run that has just started swept our temporary file.
  if (error == EEXIST || error == ENOENT) return false;
  throw output_error("make the run lock", path_, error);
}

/// Removes a stale lock and returns where the name may be tried again; throws where the
/// owner may live.
void RunLock::take_over() {
  const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return;
    throw output_error("open the run lock", path_, errno);
  }
  const bool kernel_free = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  const bool kernel_held = !kernel_free && errno == EWOULDBLOCK;
  const LockOwner owner = LockOwner::parse(read_from(file));
  const std::string proof = proof_of_death(owner, LockOwner::self(), kernel_free);
  // Dead but flocked: another contender is taking it over right now.
  const bool ours_to_remove = !kernel_held && is_at(file, path_);
  if (!proof.empty() && ours_to_remove) {
    ::unlink(path_.c_str());
    note_ = fmt::format("took over the run lock left by {}: {}", owner.who(), proof);
  }
  const bool still_there = is_at(file, path_);
  ::close(file);
  if (proof.empty() && still_there) {
    throw Error(
        Code::launch,
        fmt::format("{} is held by {}: another run writes here; wait for it, choose "
                    "another directory (-d) or name, or remove the file if that run "
                    "is surely gone",
                    path_, owner.who()));
  }
  if (!ours_to_remove) ::usleep(kPause);
}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::move(other.path_)),
      note_(std::move(other.note_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(note_, other.note_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void RunLock::release() noexcept {
  if (descriptor_ < 0) return;
  if (is_at(descriptor_, path_)) ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace kan::io
