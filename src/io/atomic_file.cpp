// System calls with their errors looked at: interrupted and short calls are continued,
// the results of fsync and close are checked, temporary files are removed where a write
// fails.
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

namespace kan::io {

namespace {

constexpr std::string_view kMark = "kan-seal";
constexpr std::size_t kSealBytes = 24;

/// Closes a descriptor at the end of scope; close() says whether the system agreed.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return number_; }
  bool close() {
    const int number = std::exchange(number_, -1);
    return number < 0 || ::close(number) == 0 || errno == EINTR;
  }

 private:
  int number_;
};

int open_retry(const char* path, int flags, mode_t mode = 0) {
  int number = -1;
  do number = ::open(path, flags | O_CLOEXEC, mode);
  while (number < 0 && errno == EINTR);
  return number;
}

/// False with errno set where the system takes no more.
bool write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool sync_retry(int descriptor) {
  int result = -1;
  do result = ::fsync(descriptor);
  while (result < 0 && errno == EINTR);
  // Some file systems have no fsync for directories or at all.
  return result == 0 || errno == EINVAL || errno == ENOTSUP;
}

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free space or choose another run directory (-d)";
    case EFBIG:
      return "raise the limit of file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a run directory that you may write to (-d)";
    case ENOENT:
      return "the directory is gone: check it, or choose another (-d)";
    case ENOTDIR:
      return "a part of the path is a file: choose another run directory (-d)";
    case EISDIR:
      return "a directory has this name: move it away";
    case ENAMETOOLONG:
      return "choose a shorter name";
    default:
      return "check the file system, or choose another run directory (-d)";
  }
}

void put_number(std::byte* to, std::uint64_t value) {
  for (int n = 0; n < 8; ++n) to[n] = static_cast<std::byte>(value >> (8 * n));
}

std::uint64_t get_number(const std::byte* from) {
  std::uint64_t value = 0;
  for (int n = 0; n < 8; ++n) value |= static_cast<std::uint64_t>(from[n]) << (8 * n);
  return value;
}

[[noreturn]] void distrust(const std::string& path, const std::string& what) {
  throw Error(Code::checkpoint, fmt::format("{} {}", path, what));
}

}  // namespace

Error output_error(const std::string& verb, const std::string& path, int error) {
  return Error(Code::output, fmt::format("cannot {} {}: {}; {}", verb, path,
                                         std::strerror(error), advice(error)));
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_directory(const std::string& directory) {
  Descriptor file(open_retry(directory.c_str(), O_RDONLY | O_DIRECTORY));
  if (file.get() < 0) throw output_error("open the directory", directory, errno);
  if (!sync_retry(file.get())) throw output_error("sync the directory", directory, errno);
}

void rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw output_error("rename " + from + " to", to, errno);
  }
}

bool remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw output_error("remove", path, errno);
}

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes,
                       const Verify& verify) {
  const std::string temporary = path + std::string(kTemporarySuffix);
  try {
    Descriptor file(open_retry(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666));
    if (file.get() < 0) throw output_error("make", temporary, errno);
    if (!write_all(file.get(), reinterpret_cast<const char*>(bytes.data()),
                   bytes.size())) {
      throw output_error("write", temporary, errno);
    }
    if (!sync_retry(file.get())) throw output_error("sync", temporary, errno);
    if (!file.close()) throw output_error("close", temporary, errno);
    const std::vector<std::byte> back = read_file(temporary, Code::output);
    if (back.size() != bytes.size() ||
        (!back.empty() && std::memcmp(back.data(), bytes.data(), back.size()) != 0)) {
      throw Error(Code::output,
                  fmt::format("{} reads back other bytes than were written; "
                              "check the file system",
                              temporary));
    }
    if (verify) verify(temporary);
    rename_file(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(directory_of(path));
}

void write_file_atomic(const std::string& path, std::string_view text) {
  write_file_atomic(path, std::as_bytes(std::span(text.data(), text.size())));
}

std::vector<std::byte> read_file(const std::string& path, Code code) {
  const auto fail = [&](int error) {
    return Error(
        code, fmt::format("cannot read {}: {}; check the path and its permissions", path,
                          std::strerror(error)));
  };
  const Descriptor file(open_retry(path.c_str(), O_RDONLY));
  struct stat about{};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0) throw fail(errno);
  if (!S_ISREG(about.st_mode)) throw fail(S_ISDIR(about.st_mode) ? EISDIR : EINVAL);
  std::vector<std::byte> bytes(static_cast<std::size_t>(about.st_size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw fail(errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::string read_text_file(const std::string& path, Code code) {
  const std::vector<std::byte> bytes = read_file(path, code);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_sealed(const std::string& path, std::vector<std::byte>& content,
                  const Verify& verify) {
  const std::size_t size = content.size();
  content.resize(size + kSealBytes);
  std::byte* seal = content.data() + size;
  std::memcpy(seal, kMark.data(), kMark.size());
  put_number(seal + 8, size);
  put_number(seal + 16, XXH3_64bits(content.data(), size + 16));
  write_file_atomic(path, content, verify);
}

std::vector<std::byte> read_sealed(const std::string& path) {
  std::vector<std::byte> bytes = read_file(path, Code::checkpoint);
  if (bytes.empty()) distrust(path, "is empty");
  const std::size_t size = bytes.size() < kSealBytes ? 0 : bytes.size() - kSealBytes;
  const std::byte* seal = bytes.data() + size;
  if (bytes.size() < kSealBytes || std::memcmp(seal, kMark.data(), kMark.size()) != 0) {
    distrust(path,
             "is cut short, or not a file that kan_driver wrote: no seal at its end");
  }
  if (get_number(seal + 8) != size) {
    distrust(path, fmt::format("is damaged: it holds {} bytes, {} were written", size,
                               get_number(seal + 8)));
  }
  if (get_number(seal + 16) != XXH3_64bits(bytes.data(), size + 16)) {
    distrust(path, "is damaged: its bytes do not match its digest");
  }
  bytes.resize(size);
  return bytes;
}

AppendFile::AppendFile(const std::string& path, bool truncate) : path_(path) {
  descriptor_ = open_retry(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | (truncate ? O_TRUNC : 0), 0666);
  if (descriptor_ < 0) throw output_error("open", path, errno);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::write(std::string_view text) {
  if (!write_all(descriptor_, text.data(), text.size())) {
    throw output_error("write", path_, errno);
  }
}

void AppendFile::sync() {
  if (!sync_retry(descriptor_)) throw output_error("sync", path_, errno);
}

}  // namespace kan::io
