// Listing is by name alone: numbers are read from names, nothing looks at file times.
#include "io/run_directory.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "io/atomic_file.hpp"

namespace kan::io {

namespace {

constexpr auto kAskEvery = std::chrono::seconds(1);
constexpr const char* kRequestNames[] = {"stop_now", "output_now"};

std::vector<std::string> list(const std::string& directory, Code code) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    throw Error(code,
                fmt::format("cannot list the directory {}: {}; check the path and its "
                            "permissions",
                            directory, error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The number in PREFIX digits SUFFIX; -1 where the name is not of that form.
std::int64_t number_in(std::string_view file, std::string_view prefix,
                       std::string_view suffix) {
  if (file.size() < prefix.size() + suffix.size() + 8 || !file.starts_with(prefix) ||
      !file.ends_with(suffix)) {
    return -1;
  }
  file.remove_prefix(prefix.size());
  file.remove_suffix(suffix.size());
  if (!std::all_of(file.begin(), file.end(),
                   [](char c) { return c >= '0' && c <= '9'; })) {
    return -1;
  }
  std::int64_t number = -1;
  const auto [end, error] =
      std::from_chars(file.data(), file.data() + file.size(), number);
  return error == std::errc() && end == file.data() + file.size() ? number : -1;
}

/// True for what a run of this name leaves behind and a new one would overwrite.
bool is_result(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + ".")) return false;
  const std::string rest = file.substr(name.size());
  if (rest == ".hst" || rest == ".hst.h5" || rest == ".report.json" || rest == ".log" ||
      rest == ".best.rst.h5") {
    return true;
  }
  if (number_in(rest, ".", ".rst.h5") >= 0 || number_in(rest, ".hst.", ".h5") >= 0)
    return true;
  if (!rest.starts_with(".out")) return false;
  const std::size_t digits = rest.find_first_not_of("0123456789", 4);
  return digits != std::string::npos && digits > 4 &&
         number_in(rest.substr(digits), ".", ".h5") >= 0;
}

void make_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw output_error("make the directory", directory, error.value());
  if (!std::filesystem::is_directory(directory, error)) {
    throw output_error("use as a directory", directory, ENOTDIR);
  }
}

}  // namespace

std::string step_digits(std::int64_t step) { return fmt::format("{:08d}", step); }

RunDirectory::RunDirectory(const std::string& directory, const std::string& name,
                           Existing existing)
    : directory_(directory.empty() ? "." : directory), name_(name) {
  if (name.empty() || name == "." || name == ".." ||
      name.find('/') != std::string::npos) {
    throw Error(Code::usage,
                fmt::format("job/name = '{}' cannot start a file name; give one "
                            "without slashes",
                            name));
  }
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
  // Past a file size limit (ulimit -f) writes shall fail with a reason, not kill the run.
  ::signal(SIGXFSZ, SIG_IGN);
  make_directory(directory_);
  lock_ = RunLock(path(".lock"));
  if (!lock_.note().empty()) notes_.push_back(lock_.note());
  if (existing == Existing::refuse) {
    for (const std::string& file : list(directory_, Code::output)) {
      // A log alone is what a run leaves that ended before it had results.
      if (!is_result(file, name_) || file == name_ + ".log") continue;
      throw Error(
          Code::output,
          fmt::format("{}/{} is of an earlier run: go on from it with -r latest, "
                      "replace it with --force, or choose another directory (-d) or "
                      "name",
                      directory_, file));
    }
  }
  sweep();
  sync_directory(directory_);
}

void RunDirectory::clear() {
  for (const std::string& file : list(directory_, Code::output)) {
    if (is_result(file, name_)) remove_file(directory_ + "/" + file);
  }
  sync_directory(directory_);
}

void RunDirectory::sweep() {
  for (const std::string& file : list(directory_, Code::output)) {
    if (!file.ends_with(kTemporarySuffix)) continue;
    const std::string whole = file.substr(0, file.size() - kTemporarySuffix.size());
    const bool ours = is_result(whole, name_) || whole.starts_with(name_ + ".lock.");
    if (ours && remove_file(directory_ + "/" + file)) {
      notes_.push_back(fmt::format("removed {}, left by a run that was killed", file));
    }
  }
  for (const char* request : kRequestNames) {
    if (remove_file(directory_ + "/" + request)) {
      notes_.push_back(fmt::format("removed {}, made before this run", request));
    }
  }
}

std::string RunDirectory::path(const std::string& suffix) const {
  return directory_ + "/" + name_ + suffix;
}

std::string RunDirectory::checkpoint_path(std::int64_t step) const {
  return path("." + step_digits(step) + ".rst.h5");
}

std::string RunDirectory::segment_path(std::int64_t first_step) const {
  return path(".hst." + step_digits(first_step) + ".h5");
}

std::string RunDirectory::output_path(int number, std::int64_t step) const {
  return path(fmt::format(".out{}.{}.h5", number, step_digits(step)));
}

bool RunDirectory::requested(Request request) {
  const std::size_t which = static_cast<std::size_t>(request);
  const auto now = std::chrono::steady_clock::now();
  if (asked_[which] != std::chrono::steady_clock::time_point() &&
      now - asked_[which] < kAskEvery) {
    return false;
  }
  asked_[which] = now;
  const std::string file = directory_ + "/" + kRequestNames[which];
  if (::access(file.c_str(), F_OK) != 0) return false;
  ::unlink(file.c_str());
  return true;
}

std::vector<std::pair<std::int64_t, std::string>> numbered_files(
    const std::string& directory, const std::string& name, const std::string& prefix,
    const std::string& suffix, Code code) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& file : list(directory, code)) {
    const std::int64_t number = number_in(file, name + prefix, suffix);
    if (number >= 0) found.emplace_back(number, directory + "/" + file);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace kan::io
