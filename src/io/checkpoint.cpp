// Writing of checkpoints, and the digest.
#include "io/checkpoint.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/atomic_file.hpp"
#include "io/checkpoint_layout.hpp"

namespace kan::io {

namespace detail {

struct Digest::State {
  // The streaming state must be aligned as the library allocates it.
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh); }

Digest::~Digest() = default;

void Digest::add(const std::string& name, const void* data, std::size_t bytes) {
  XXH3_64bits_update(state_->xxh, name.data(), name.size() + 1);
  const std::uint64_t size = bytes;
  XXH3_64bits_update(state_->xxh, &size, sizeof size);
  if (bytes > 0) XXH3_64bits_update(state_->xxh, data, bytes);
}

std::string Digest::hex() const {
  return fmt::format("{:016x}", XXH3_64bits_digest(state_->xxh));
}

std::string to_string(Base base) {
  switch (base) {
    case Base::silu:
      return "silu";
    case Base::identity:
      return "identity";
    case Base::none:
      return "none";
  }
  return "unknown";
}

Base base_from(const std::string& name, const std::string& path) {
  for (const Base base : {Base::silu, Base::identity, Base::none}) {
    if (name == to_string(base)) return base;
  }
  throw Error(
      Code::checkpoint,
      fmt::format("{} has a base function that this version does not know, '{}'; go "
                  "on with the version that wrote it",
                  path, name));
}

}  // namespace detail

template <class T>
void write_checkpoint(const std::string& path, const TrainingState<T>& state,
                      const RunInfo& run, Reason reason) {
  RunInfo about = run;
  about.precision = std::is_same_v<T, float> ? "float" : "double";
  const Progress& progress = state.progress;
  Hdf5File file = Hdf5File::create_in_memory(path, Code::output);
  write_info(
      file, about,
      {progress.step, progress.epoch, progress.samples_seen, progress.elapsed, reason});
  detail::WriteArchive archive(file);
  detail::visit_state(archive, state);
  file.write_attribute("/", "digest", archive.digest().hex());
  std::vector<std::byte> bytes = file.close_to_bytes();
  write_sealed(path, bytes, [&](const std::string& temporary) {
    try {
      read_checkpoint<T>(temporary);
    } catch (const Error& error) {
      throw Error(Code::output,
                  fmt::format("the checkpoint does not read back as written "
                              "({}); check the file system",
                              error.what()));
    }
  });
}

template void write_checkpoint<float>(const std::string&, const TrainingState<float>&,
                                      const RunInfo&, Reason);
template void write_checkpoint<double>(const std::string&, const TrainingState<double>&,
                                       const RunInfo&, Reason);

}  // namespace kan::io
