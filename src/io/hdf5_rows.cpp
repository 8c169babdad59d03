#include "io/hdf5_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/hdf5_detail.hpp"

namespace kan::io {

using namespace detail;

namespace {

constexpr std::int64_t kMostCached = 64 << 20;

/// Bytes of the chunks that hold one row.
std::int64_t row_of_chunks(const Hdf5Info& info) {
  std::int64_t bytes = info.bytes * info.chunk[0];
  for (std::size_t d = 1; d < info.chunk.size(); ++d)
    bytes *= (info.shape[d] + info.chunk[d] - 1) / info.chunk[d] * info.chunk[d];
  return bytes;
}

}  // namespace

Hdf5Rows::Hdf5Rows(const Hdf5File& file, const std::string& name)
    : file_(file), name_(name) {
  const LibraryCall call;
  info_ = file.info(name);
  if (!info_.numeric() || info_.shape.empty())
    throw Error(file.code(), fmt::format("{}: dataset '{}' has no rows of numbers",
                                         file.path(), name));
  for (std::size_t d = 1; d < info_.shape.size(); ++d) columns_ *= info_.shape[d];
  const Hdf5Handle access = own_property(H5Pcreate(H5P_DATASET_ACCESS));
  if (!info_.chunk.empty()) {
    const std::int64_t bytes = row_of_chunks(info_);
    constexpr std::int64_t kLeast = 1 << 20;
    if (bytes <= kMostCached)
      H5Pset_chunk_cache(access.id(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT,
                         static_cast<std::size_t>(std::max(bytes, kLeast)),
                         H5D_CHUNK_CACHE_W0_DEFAULT);
  }
  set_ = own_dataset(H5Dopen2(file.file_.id(), name.c_str(), access.id()));
  if (!set_)
    file.fail(fmt::format("dataset '{}' cannot be opened", name),
              "the file may be damaged");
}

void Hdf5Rows::read(std::int64_t begin, std::int64_t end, double* out) const {
  KAN_REQUIRE(0 <= begin && begin <= end && end <= rows(), "Hdf5Rows: rows out of range");
  if (begin == end || columns_ == 0) return;
  const LibraryCall call;
  const Hdf5Handle file_space = own_space(H5Dget_space(set_.id()));
  const Hdf5Handle space = select_rows(file_space.id(), info_.shape, begin, end);
  if (H5Dread(set_.id(), H5T_NATIVE_DOUBLE, space.id(), file_space.id(), H5P_DEFAULT,
              out) < 0)
    file_.fail(
        fmt::format("rows {}:{} of dataset '{}' cannot be read", begin, end, name_),
        "the file may be damaged or cut short: copy or write it again");
}

}  // namespace kan::io
