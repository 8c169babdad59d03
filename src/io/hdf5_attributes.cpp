// Attributes and strings of HDF5 files, and the text of HDF5's error stack. Strings are
// stored with variable length (an attribute of fixed length may not exceed 64 KiB, a deck
// can) and read in either form.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "io/hdf5_detail.hpp"

namespace kan::io {

namespace detail {

namespace {

herr_t keep_description(unsigned, const H5E_error2_t* entry, void* text) {
  if (entry->desc != nullptr && *entry->desc != '\0') {
    *static_cast<std::string*>(text) = entry->desc;
  }
  return 0;
}

}  // namespace

std::string reason() {
  std::string text;
  // Downward: from the call that failed to its deepest cause, which comes last.
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_description, &text);
  if (text.empty()) return "HDF5 gives no reason";
  return text;
}

Hdf5Handle string_type() {
  Hdf5Handle type = own_type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

Hdf5Kind kind_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_ENUM:
      return Hdf5Kind::integer;  // h5py stores booleans as an enumeration
    case H5T_FLOAT:
      return Hdf5Kind::real;
    case H5T_STRING:
      return Hdf5Kind::string;
    default:
      return Hdf5Kind::other;
  }
}

}  // namespace detail

using namespace detail;

namespace {

/// Reads `count` strings of fixed or variable length through `read(type, buffer)`.
template <class Read>
bool read_text(hid_t stored, hid_t space, std::size_t count, Read read,
               std::vector<std::string>& out) {
  out.assign(count, "");
  if (H5Tis_variable_str(stored) > 0) {
    Hdf5Handle type = own_type(H5Tcopy(H5T_C_S1));
    H5Tset_size(type.id(), H5T_VARIABLE);
    H5Tset_cset(type.id(), H5Tget_cset(stored));
    std::vector<char*> text(count, nullptr);
    if (read(type.id(), text.data()) < 0) return false;
    for (std::size_t n = 0; n < count; ++n) {
      if (text[n] != nullptr) out[n] = text[n];
    }
    H5Dvlen_reclaim(type.id(), space, H5P_DEFAULT, text.data());
    return true;
  }
  const std::size_t size = H5Tget_size(stored);
  std::vector<char> text(count * size);
  if (read(stored, text.data()) < 0) return false;
  const bool padded = H5Tget_strpad(stored) == H5T_STR_SPACEPAD;
  for (std::size_t n = 0; n < count; ++n) {
    const char* first = text.data() + n * size;
    out[n].assign(first, strnlen(first, size));
    while (padded && !out[n].empty() && out[n].back() == ' ') out[n].pop_back();
  }
  return true;
}

}  // namespace

void Hdf5File::replace_attribute(const std::string& object_name, const std::string& name,
                                 const Hdf5Handle& type, const void* value) {
  const Hdf5Handle owner = object(object_name);
  const Hdf5Handle space = own_space(H5Screate(H5S_SCALAR));
  if (H5Aexists(owner.id(), name.c_str()) > 0) H5Adelete(owner.id(), name.c_str());
  const Hdf5Handle made = own_attribute(H5Acreate2(owner.id(), name.c_str(), type.id(),
                                                   space.id(), H5P_DEFAULT, H5P_DEFAULT));
  if (!made || H5Awrite(made.id(), type.id(), value) < 0) {
    fail(fmt::format("cannot write the attribute '{}' of '{}'", name, object_name),
         "check the space left and the quota");
  }
}

void Hdf5File::write_attribute(const std::string& object_name, const std::string& name,
                               const std::string& value) {
  KAN_REQUIRE(value.find('\0') == std::string::npos,
              "an HDF5 string attribute cannot hold a zero byte");
  const LibraryCall call;
  const char* text = value.c_str();
  replace_attribute(object_name, name, string_type(), &text);
}

void Hdf5File::write_attribute(const std::string& object_name, const std::string& name,
                               std::int64_t value) {
  const LibraryCall call;
  replace_attribute(object_name, name, own_type(H5Tcopy(H5T_NATIVE_INT64)), &value);
}

void Hdf5File::write_attribute(const std::string& object_name, const std::string& name,
                               double value) {
  const LibraryCall call;
  replace_attribute(object_name, name, own_type(H5Tcopy(H5T_NATIVE_DOUBLE)), &value);
}

bool Hdf5File::has_attribute(const std::string& object_name,
                             const std::string& name) const {
  const LibraryCall call;
  if (!exists(object_name)) return false;
  return H5Aexists(object(object_name).id(), name.c_str()) > 0;
}

std::vector<std::string> Hdf5File::attributes(const std::string& object_name) const {
  const LibraryCall call;
  const Hdf5Handle owner = object(object_name);
  std::vector<std::string> out;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* list) -> herr_t {
    static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  H5Aiterate2(owner.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &out);
  return out;
}

Hdf5Handle Hdf5File::attribute(const std::string& object_name,
                               const std::string& name) const {
  const Hdf5Handle owner = object(object_name);
  if (H5Aexists(owner.id(), name.c_str()) <= 0) {
    throw Error(code_,
                fmt::format("{}: '{}' has no attribute '{}'; it has: {}", path_,
                            object_name, name, fmt::join(attributes(object_name), ", ")));
  }
  Hdf5Handle out = own_attribute(H5Aopen(owner.id(), name.c_str(), H5P_DEFAULT));
  if (!out)
    fail(fmt::format("attribute '{}' of '{}' cannot be opened", name, object_name),
         "the file may be damaged");
  return out;
}

std::string Hdf5File::read_string_attribute(const std::string& object_name,
                                            const std::string& name) const {
  const LibraryCall call;
  const Hdf5Handle value = attribute(object_name, name);
  const Hdf5Handle type = own_type(H5Aget_type(value.id()));
  const Hdf5Handle space = own_space(H5Aget_space(value.id()));
  if (kind_of(type.id()) != Hdf5Kind::string ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    throw Error(code_, fmt::format("{}: attribute '{}' of '{}' is not one string", path_,
                                   name, object_name));
  }
  std::vector<std::string> out;
  const auto read = [&](hid_t memory, void* to) {
    return H5Aread(value.id(), memory, to);
  };
  if (!read_text(type.id(), space.id(), 1, read, out)) {
    fail(fmt::format("attribute '{}' of '{}' cannot be read", name, object_name),
         "the file may be damaged");
  }
  return out[0];
}

namespace {

/// Empty where the attribute is one number of a kind that fits, else what is wanted.
std::string unfit(hid_t attribute, bool whole) {
  const Hdf5Handle type = own_type(H5Aget_type(attribute));
  const Hdf5Handle space = own_space(H5Aget_space(attribute));
  const Hdf5Kind kind = kind_of(type.id());
  const bool good = kind == Hdf5Kind::integer || (kind == Hdf5Kind::real && !whole);
  if (good && H5Sget_simple_extent_npoints(space.id()) == 1) return "";
  return whole ? "one whole number" : "one number";
}

}  // namespace

std::int64_t Hdf5File::read_int_attribute(const std::string& object_name,
                                          const std::string& name) const {
  const LibraryCall call;
  const Hdf5Handle stored = attribute(object_name, name);
  const std::string wanted = unfit(stored.id(), true);
  std::int64_t value = 0;
  if (!wanted.empty() || H5Aread(stored.id(), H5T_NATIVE_INT64, &value) < 0) {
    throw Error(code_, fmt::format("{}: attribute '{}' of '{}' is not {}", path_, name,
                                   object_name, wanted.empty() ? "readable" : wanted));
  }
  return value;
}

double Hdf5File::read_double_attribute(const std::string& object_name,
                                       const std::string& name) const {
  const LibraryCall call;
  const Hdf5Handle stored = attribute(object_name, name);
  const std::string wanted = unfit(stored.id(), false);
  double value = 0;
  if (!wanted.empty() || H5Aread(stored.id(), H5T_NATIVE_DOUBLE, &value) < 0) {
    throw Error(code_, fmt::format("{}: attribute '{}' of '{}' is not {}", path_, name,
                                   object_name, wanted.empty() ? "readable" : wanted));
  }
  return value;
}

void Hdf5File::write_strings(const std::string& name,
                             const std::vector<std::string>& values) {
  const LibraryCall call;
  make_parents(name);
  const hsize_t count = values.size();
  std::vector<const char*> text;
  for (const std::string& value : values) text.push_back(value.c_str());
  const Hdf5Handle type = string_type();
  const Hdf5Handle space = own_space(H5Screate_simple(1, &count, nullptr));
  const Hdf5Handle creation = own_property(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.id(), false);
  const Hdf5Handle set =
      own_dataset(H5Dcreate2(file_.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT,
                             creation.id(), H5P_DEFAULT));
  if (!set || (count > 0 && H5Dwrite(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                     text.data()) < 0)) {
    fail(fmt::format("cannot write the strings '{}'", name), "check the space left");
  }
}

std::vector<std::string> Hdf5File::read_strings(const std::string& name) const {
  const LibraryCall call;
  const Hdf5Info about = info(name);
  if (about.kind != Hdf5Kind::string || about.shape.size() != 1) {
    throw Error(code_,
                fmt::format("{}: dataset '{}' is not a list of strings", path_, name));
  }
  std::vector<std::string> out;
  if (about.shape[0] == 0) return out;
  const Hdf5Handle set = dataset(name);
  const Hdf5Handle type = own_type(H5Dget_type(set.id()));
  const Hdf5Handle space = own_space(H5Dget_space(set.id()));
  const auto read = [&](hid_t memory, void* to) {
    return H5Dread(set.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, to);
  };
  if (!read_text(type.id(), space.id(), static_cast<std::size_t>(about.shape[0]), read,
                 out)) {
    fail(fmt::format("dataset '{}' cannot be read", name), "the file may be damaged");
  }
  return out;
}

}  // namespace kan::io
