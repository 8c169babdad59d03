// Files that survive a kill: written whole under a temporary name in the same directory
// (PATH.tmp), fsynced, closed, read back and compared, renamed over the final name, and
// the directory fsynced. A reader sees the old file or the new one, never a part.
//
// A sealed file is any content followed by 24 bytes: the mark "kan-seal", the content's
// length and the XXH3 (64 bit) digest of all bytes before it, both little-endian. Every
// byte of the file is covered, so that damage is found before a parser sees the content.
// HDF5 readers ignore bytes behind the end that the superblock names.
//
// Failures to write are kan::Error of Code::output naming path and the system's reason;
// a sealed file that cannot be trusted is Code::checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kan/error.hpp"

namespace kan::io {

inline constexpr std::string_view kTemporarySuffix = ".tmp";

/// Called with the name of the closed temporary file; throws to refuse it.
using Verify = std::function<void(const std::string& temporary)>;

void write_file_atomic(const std::string& path, std::span<const std::byte> bytes,
                       const Verify& verify = {});
void write_file_atomic(const std::string& path, std::string_view text);

/// Whole content. Error(code): missing, unreadable, a directory.
std::vector<std::byte> read_file(const std::string& path, Code code);
std::string read_text_file(const std::string& path, Code code);

/// Writes content and seal through write_file_atomic; `content` gets the seal appended.
void write_sealed(const std::string& path, std::vector<std::byte>& content,
                  const Verify& verify = {});
/// Content without the seal. Errors (Code::checkpoint): missing, empty, cut short,
/// changed.
std::vector<std::byte> read_sealed(const std::string& path);

/// A file that grows at its end, for text that people follow while a run goes on. Nothing
/// is buffered here.
class AppendFile {
 public:
  AppendFile() = default;
  explicit AppendFile(const std::string& path, bool truncate = false);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();
  explicit operator bool() const { return descriptor_ >= 0; }
  void write(std::string_view text);
  void sync();

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Renames within one directory, replacing what is there. Not durable before
/// sync_directory.
void rename_file(const std::string& from, const std::string& to);
/// True where the file was there.
bool remove_file(const std::string& path);
void sync_directory(const std::string& directory);
/// Directory part of a path, "." where it has none.
std::string directory_of(const std::string& path);

/// Code::output: "cannot VERB PATH: reason; advice" for an errno value.
Error output_error(const std::string& verb, const std::string& path, int error);

}  // namespace kan::io
