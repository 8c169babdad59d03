// Every change of the set is made after the file that justifies it is durable: the best
// is renewed after the checkpoint, the oldest removed last.
#include "io/checkpoint_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "io/atomic_file.hpp"

namespace kan::io {

namespace {

constexpr const char* kSuffix = ".rst.h5";
constexpr const char* kAside = ".aside";

}  // namespace

FoundCheckpoint find_checkpoint(const std::string& directory, const std::string& name,
                                const std::string& request) {
  FoundCheckpoint found;
  if (request != "latest" && request != "auto") {
    try {
      found.header = read_checkpoint_header(request);
    } catch (const Error& error) {
      throw Error(
          Code::checkpoint,
          fmt::format("{}; name another checkpoint, or use -r latest", error.what()));
    }
    return found;
  }
  std::vector<std::pair<std::int64_t, std::string>> files;
  if (::access(directory.c_str(), F_OK) == 0) {
    files = numbered_files(directory, name, ".", kSuffix, Code::checkpoint);
  }
  std::string reason;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      found.header = read_checkpoint_header(file->second);
      if (found.header.step == file->first) return found;
      throw Error(Code::checkpoint,
                  fmt::format("{} has another step in its name than inside "
                              "({})",
                              file->second, found.header.step));
    } catch (const Error& error) {
      if (reason.empty()) reason = error.what();
      found.notes.push_back(fmt::format("{}: passed over", error.what()));
    }
  }
  found.header = {};
  if (!files.empty()) {
    throw Error(
        Code::checkpoint,
        fmt::format("all {} checkpoints {}/{}.*{} are bad, the newest: {}; restore one, "
                    "or start anew with --force",
                    files.size(), directory, name, kSuffix, reason));
  }
  if (request == "latest") {
    throw Error(
        Code::checkpoint,
        fmt::format("there is no checkpoint {}/{}.*{} to go on from; check -d and "
                    "job/name, or start without -r (-r auto does either)",
                    directory, name, kSuffix));
  }
  found.notes.push_back(
      fmt::format("-r auto: no checkpoint of '{}' in '{}', starting from the beginning",
                  name, directory));
  return found;
}

std::vector<std::string> CheckpointFiles::resume(const std::string& path,
                                                 const Progress& progress) {
  std::vector<std::string> notes;
  const auto aside = [&](const std::string& file, const std::string& why) {
    rename_file(file, file + kAside);
    notes.push_back(fmt::format("{}: set aside as {}{}", why, file, kAside));
  };
  for (const auto& [step, file] : numbered_files(
           directory_.directory(), directory_.name(), ".", kSuffix, Code::output)) {
    if (step > progress.step || path.empty()) {
      aside(file, fmt::format("past the restart at step {}", progress.step));
    }
  }
  const std::string best = directory_.best_path();
  if (::access(best.c_str(), F_OK) == 0) {
    try {
      const CheckpointHeader header = read_checkpoint_header(best);
      if (header.step > progress.step || path.empty()) {
        aside(best, fmt::format("past the restart at step {}", progress.step));
      } else {
        best_written_ = header.best_loss;
      }
    } catch (const Error& error) {
      aside(best, error.what());
    }
  }
  sync_directory(directory_.directory());
  if (!path.empty()) {
    make_best(path, progress.best_loss);
    prune();
  }
  return notes;
}

void CheckpointFiles::make_best(const std::string& path, double best_loss) {
  if (!(best_loss < best_written_)) return;
  const std::string best = directory_.best_path();
  const std::string temporary = best + std::string(kTemporarySuffix);
  ::unlink(temporary.c_str());
  if (::link(path.c_str(), temporary.c_str()) == 0) {
    rename_file(temporary, best);
    // Nothing is renamed where both names led to the same file already.
    ::unlink(temporary.c_str());
    sync_directory(directory_.directory());
  } else {
    write_file_atomic(best, read_file(path, Code::output));
  }
  best_written_ = best_loss;
}

void CheckpointFiles::prune() {
  const auto files = numbered_files(directory_.directory(), directory_.name(), ".",
                                    kSuffix, Code::output);
  const std::size_t keep = static_cast<std::size_t>(std::max(keep_, 1));
  for (std::size_t n = 0; n + keep < files.size(); ++n) remove_file(files[n].second);
}

template <class T>
std::string CheckpointFiles::write(const TrainingState<T>& state, Reason reason) {
  const std::string path = directory_.checkpoint_path(state.progress.step);
  write_checkpoint(path, state, run_, reason);
  make_best(path, state.progress.best_loss);
  prune();
  return path;
}

template std::string CheckpointFiles::write(const TrainingState<float>&, Reason);
template std::string CheckpointFiles::write(const TrainingState<double>&, Reason);

}  // namespace kan::io
