#include "io/dataset/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace kan::io {

namespace {

XXH3_state_t* state_of(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

DataDigest::DataDigest()
    : state_(XXH3_createState(), [](void* state) { XXH3_freeState(state_of(state)); }) {
  XXH3_128bits_reset(state_of(state_.get()));
}

void DataDigest::add(const void* bytes, std::size_t size) {
  XXH3_128bits_update(state_of(state_.get()), bytes, size);
}

void DataDigest::add(const DataSet& set) {
  const std::int64_t sizes[] = {set.rows, set.inputs, set.targets};
  add(sizes, sizeof sizes);
  add(set.x.data(), set.x.size() * sizeof(double));
  add(set.y.data(), set.y.size() * sizeof(double));
}

std::array<std::uint64_t, 2> DataDigest::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_of(state_.get()));
  return {hash.high64, hash.low64};
}

std::string DataDigest::text() const {
  const auto [high, low] = value();
  return fmt::format("{:016x}{:016x}", high, low);
}

}  // namespace kan::io
