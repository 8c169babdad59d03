// What the files of the HDF5 layer share: the C header, the lock around the library and
// the silencing of its error stack, the text of its reason, and makers of handles.
// Included by hdf5*.cpp only.
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <type_traits>

#include "io/hdf5.hpp"

namespace kan::io::detail {

static_assert(std::is_same_v<hid_t, std::int64_t>, "HDF5 1.10 or newer");

/// A call into the library, which is not safe for threads: others wait until it ends, so
/// every function that calls the library begins with one of these; they nest. The
/// library's automatic printing of errors is off meanwhile.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> alone_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// The deepest description on the error stack, with the system's words where it has them.
std::string reason();

inline Hdf5Handle own_type(hid_t id) { return {id, H5Tclose}; }
inline Hdf5Handle own_space(hid_t id) { return {id, H5Sclose}; }
inline Hdf5Handle own_property(hid_t id) { return {id, H5Pclose}; }
inline Hdf5Handle own_object(hid_t id) { return {id, H5Oclose}; }
inline Hdf5Handle own_dataset(hid_t id) { return {id, H5Dclose}; }
inline Hdf5Handle own_attribute(hid_t id) { return {id, H5Aclose}; }

/// UTF-8 string type of variable length.
Hdf5Handle string_type();

Hdf5Kind kind_of(hid_t type);

/// Selects rows [begin, end) of a dataset's space; returns the space of that many values.
Hdf5Handle select_rows(hid_t file_space, const std::vector<std::int64_t>& shape,
                       std::int64_t begin, std::int64_t end);

}  // namespace kan::io::detail
