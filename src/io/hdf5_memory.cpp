// HDF5 files in memory (the core driver without a backing file). What must survive a kill
// is made here and handed to write_sealed as bytes, so that every system call on the disk
// is ours: a full disk is an errno with a path, never a half-closed HDF5 file; and
// reading gives HDF5 only bytes whose digest was found right. Each file gets a name of
// its own, since the driver takes two open files of one name for the same.
#include <fmt/format.h>

#include "io/hdf5_detail.hpp"

namespace kan::io {

using namespace detail;

namespace {

constexpr std::size_t kGrowBytes = 1 << 20;

Hdf5Handle core_access() {
  Hdf5Handle access = own_property(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG);
  H5Pset_fapl_core(access.id(), kGrowBytes, false);
  return access;
}

std::string unique_name() {
  static std::int64_t made = 0;
  return fmt::format("kan-memory-{}", made++);
}

}  // namespace

Hdf5File Hdf5File::create_in_memory(const std::string& name, Code code) {
  const LibraryCall call;
  Hdf5File out(name, code);
  const Hdf5Handle creation = own_property(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_obj_track_times(creation.id(), false);
  out.file_ = Hdf5Handle(
      H5Fcreate(unique_name().c_str(), H5F_ACC_TRUNC, creation.id(), core_access().id()),
      H5Fclose);
  if (!out.file_) out.fail("cannot make the file in memory", "check the memory left");
  return out;
}

std::vector<std::byte> Hdf5File::close_to_bytes() {
  const LibraryCall call;
  flush();
  const ssize_t size = H5Fget_file_image(file_.id(), nullptr, 0);
  if (size < 0) fail("cannot take the file out of memory", "check the memory left");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file_.id(), bytes.data(), bytes.size()) != size) {
    fail("cannot take the file out of memory", "check the memory left");
  }
  close();
  return bytes;
}

Hdf5File Hdf5File::open_bytes(std::span<const std::byte> bytes, const std::string& name,
                              Code code) {
  const LibraryCall call;
  Hdf5File out(name, code);
  const Hdf5Handle access = core_access();
  // HDF5 copies the bytes; its interface only lacks the const.
  if (H5Pset_file_image(access.id(), const_cast<std::byte*>(bytes.data()),
                        bytes.size()) >= 0) {
    out.file_ =
        Hdf5Handle(H5Fopen(unique_name().c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  }
  if (!out.file_) out.fail("is not a readable HDF5 file", "write or copy it again");
  return out;
}

}  // namespace kan::io
