// Opening, closing and listing of HDF5 files. Locks are best effort: where the file
// system has none, the file is used without; where another process holds one, that is an
// error which says so. Any call of the library wipes its error stack, so the reason of a
// failure is taken before a handle is closed. Datasets: hdf5_dataset.cpp; attributes and
// strings: hdf5_attributes.cpp.
#include "io/hdf5.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mntent.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "io/hdf5_detail.hpp"

namespace kan::io {

using namespace detail;

namespace {

constexpr std::size_t kMostListed = 1000;
constexpr int kDeepest = 32;

Hdf5Handle access_properties(bool locking) {
  Hdf5Handle access = own_property(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG);
  // The variable HDF5_USE_FILE_LOCKING wins over this, as users expect of it.
  H5Pset_file_locking(access.id(), locking, true);
  return access;
}

bool about_lock(const std::string& why) { return why.starts_with("unable to lock"); }

/// Opens with locking; once more without where the file system is what refuses. `why` is
/// HDF5's reason where both fail (any later call of the library would wipe it out).
Hdf5Handle open_file(const std::function<hid_t(hid_t access)>& open, std::string& why) {
  for (const bool locking : {true, false}) {
    const Hdf5Handle access = access_properties(locking);
    Hdf5Handle file(open(access.id()), H5Fclose);
    if (file) return file;
    why = reason();
    const bool held = why.find("Resource temporarily unavailable") != std::string::npos;
    if (!about_lock(why) || held) break;
  }
  return {};
}

[[noreturn]] void open_failed(const std::string& path, Code code, const char* verb,
                              const std::string& why) {
  if (about_lock(why)) {
    throw Error(
        code, fmt::format("{}: the file cannot be locked ({}; file system: {}): another "
                          "process has it open for writing, or the file system does not "
                          "lock; end that process, or set HDF5_USE_FILE_LOCKING=FALSE",
                          path, why, file_system(path)));
  }
  if (why.find("truncated") != std::string::npos) {
    throw Error(code,
                fmt::format("{}: the HDF5 file is cut short ({}); copy or write it again",
                            path, why));
  }
  throw Error(code, fmt::format("{}: cannot {} the HDF5 file ({}); check the path, its "
                                "permissions and the space left",
                                path, verb, why));
}

/// Splits "/a/b" into the paths "a" and "a/b".
std::vector<std::string> prefixes(const std::string& name) {
  std::vector<std::string> out;
  std::string path;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t slash = std::min(name.find('/', at), name.size());
    if (slash > at) {
      path += (path.empty() ? "" : "/") + name.substr(at, slash - at);
      out.push_back(path);
    }
    at = slash + 1;
  }
  return out;
}

}  // namespace

namespace detail {

namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

LibraryCall::LibraryCall() : alone_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryCall::~LibraryCall() { H5Eset_auto2(H5E_DEFAULT, print_, print_data_); }

}  // namespace detail

bool Hdf5Handle::close() noexcept {
  if (id_ < 0) return true;
  const LibraryCall call;
  const bool good = closer_(id_) >= 0;
  id_ = -1;
  return good;
}

std::string file_system(const std::string& path) {
  std::error_code ignored;
  std::string real = std::filesystem::weakly_canonical(path, ignored).string();
  if (real.empty()) real = path;
  const std::unique_ptr<FILE, int (*)(FILE*)> table(setmntent("/proc/self/mounts", "r"),
                                                    endmntent);
  std::string best, type = "unknown";
  while (const mntent* entry = table ? getmntent(table.get()) : nullptr) {
    const std::string point = entry->mnt_dir;
    const bool inside = point == "/" || real == point || real.starts_with(point + "/");
    if (!inside || point.size() < best.size()) continue;
    best = point;
    type = entry->mnt_type;
  }
  return best.empty() ? type : type + " on " + best;
}

Hdf5File Hdf5File::open(const std::string& path, Code code) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw Error(code, path + ": no such file; check the path");
  }
  if (std::filesystem::is_fifo(status)) {
    throw Error(code, path + ": is a pipe, an HDF5 file is needed");
  }
  if (std::filesystem::is_directory(status)) {
    throw Error(code, path + ": is a directory, an HDF5 file is needed");
  }
  if (std::filesystem::is_regular_file(status) &&
      std::filesystem::file_size(path, failure) == 0 && !failure) {
    throw Error(code, path + ": the file is empty, an HDF5 file is needed");
  }
  const LibraryCall call;
  Hdf5File out(path, code);
  std::string why;
  out.file_ = open_file(
      [&](hid_t access) { return H5Fopen(path.c_str(), H5F_ACC_RDONLY, access); }, why);
  if (!out.file_) {
    if (why.find("signature not found") != std::string::npos) {
      throw Error(code, path + ": is not an HDF5 file (no HDF5 signature in it)");
    }
    open_failed(path, code, "open", why);
  }
  return out;
}

Hdf5File Hdf5File::create(const std::string& path, Code code) {
  const LibraryCall call;
  Hdf5File out(path, code);
  const Hdf5Handle creation = own_property(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_obj_track_times(creation.id(), false);
  std::string why;
  out.file_ = open_file(
      [&](hid_t access) {
        return H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access);
      },
      why);
  if (!out.file_) open_failed(path, code, "make", why);
  return out;
}

void Hdf5File::fail(const std::string& what, const std::string& advice) const {
  throw Error(code_, fmt::format("{}: {} ({}); {}", path_, what, reason(), advice));
}

void Hdf5File::flush() {
  const LibraryCall call;
  if (H5Fflush(file_.id(), H5F_SCOPE_LOCAL) < 0) {
    fail("cannot write the file", "check the space left and the quota");
  }
}

void Hdf5File::close() {
  if (!file_) return;
  const LibraryCall call;
  if (H5Fflush(file_.id(), H5F_SCOPE_LOCAL) < 0) {
    const std::string why = reason();
    file_.close();
    throw Error(code_,
                fmt::format("{}: cannot write the file ({}); check the space left and "
                            "the quota",
                            path_, why));
  }
  if (!file_.close()) fail("cannot close the file", "check the space left and the quota");
}

bool Hdf5File::exists(const std::string& name) const {
  const LibraryCall call;
  for (const std::string& path : prefixes(name)) {
    if (H5Lexists(file_.id(), path.c_str(), H5P_DEFAULT) <= 0) return false;
    if (H5Oexists_by_name(file_.id(), path.c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

Hdf5Handle Hdf5File::object(const std::string& name) const {
  Hdf5Handle out = exists(name)
                       ? own_object(H5Oopen(file_.id(), name.empty() ? "/" : name.c_str(),
                                            H5P_DEFAULT))
                       : Hdf5Handle();
  if (!out) {
    throw Error(code_, fmt::format("{}: has no object '{}'; the datasets there are: {}",
                                   path_, name, fmt::join(datasets(), ", ")));
  }
  return out;
}

Hdf5Handle Hdf5File::dataset(const std::string& name) const {
  if (!exists(name)) {
    const std::vector<std::string> there = datasets();
    throw Error(code_,
                there.empty()
                    ? fmt::format("{}: has no dataset '{}', nor any other", path_, name)
                    : fmt::format("{}: has no dataset '{}'; the datasets there are: {}",
                                  path_, name, fmt::join(there, ", ")));
  }
  const Hdf5Handle found = object(name);
  if (H5Iget_type(found.id()) != H5I_DATASET) {
    throw Error(code_,
                fmt::format("{}: '{}' is a group, not a dataset; the datasets below it "
                            "are: {}",
                            path_, name, fmt::join(datasets(name), ", ")));
  }
  Hdf5Handle out = own_dataset(H5Dopen2(file_.id(), name.c_str(), H5P_DEFAULT));
  if (!out)
    fail(fmt::format("dataset '{}' cannot be opened", name), "the file may be damaged");
  return out;
}

std::vector<std::string> Hdf5File::children(const std::string& group) const {
  const LibraryCall call;
  const Hdf5Handle parent = object(group);
  std::vector<std::string> out;
  H5G_info_t members;
  if (H5Iget_type(parent.id()) != H5I_GROUP || H5Gget_info(parent.id(), &members) < 0)
    return out;
  for (hsize_t n = 0; n < members.nlinks; ++n) {
    const ssize_t length = H5Lget_name_by_idx(parent.id(), ".", H5_INDEX_NAME,
                                              H5_ITER_INC, n, nullptr, 0, H5P_DEFAULT);
    if (length < 0) continue;
    std::string name(static_cast<std::size_t>(length), '\0');
    H5Lget_name_by_idx(parent.id(), ".", H5_INDEX_NAME, H5_ITER_INC, n, name.data(),
                       name.size() + 1, H5P_DEFAULT);
    out.push_back(std::move(name));
  }
  return out;
}

std::vector<std::string> Hdf5File::datasets(const std::string& group) const {
  const LibraryCall call;
  std::vector<std::string> out;
  // Links may form cycles; the depth and the number of names end the walk.
  const std::function<void(const std::string&, int)> walk = [&](const std::string& at,
                                                                int depth) {
    for (const std::string& name : children(at.empty() ? "/" : at)) {
      const std::string path = at + "/" + name;
      if (out.size() >= kMostListed || !exists(path)) continue;
      const Hdf5Handle member =
          own_object(H5Oopen(file_.id(), path.c_str(), H5P_DEFAULT));
      const H5I_type_t type = member ? H5Iget_type(member.id()) : H5I_BADID;
      if (type == H5I_DATASET) out.push_back(path);
      if (type == H5I_GROUP && depth < kDeepest) walk(path, depth + 1);
    }
  };
  const std::vector<std::string> steps = prefixes(group);
  walk(steps.empty() ? "" : "/" + steps.back(), 0);
  return out;
}

void Hdf5File::make_group(const std::string& name) {
  const LibraryCall call;
  const Hdf5Handle creation = own_property(H5Pcreate(H5P_GROUP_CREATE));
  H5Pset_obj_track_times(creation.id(), false);
  for (const std::string& path : prefixes(name)) {
    if (H5Lexists(file_.id(), path.c_str(), H5P_DEFAULT) > 0) continue;
    const Hdf5Handle group(
        H5Gcreate2(file_.id(), path.c_str(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
        H5Gclose);
    if (!group)
      fail(fmt::format("cannot make the group '{}'", path), "check the space left");
  }
}

void Hdf5File::make_parents(const std::string& name) {
  std::vector<std::string> steps = prefixes(name);
  KAN_REQUIRE(!steps.empty(), "an HDF5 object needs a name");
  if (steps.size() > 1) make_group(steps[steps.size() - 2]);
}

}  // namespace kan::io
