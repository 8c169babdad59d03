// What the files of the HDF5 layer share: the C header, the silencing of the library's
// error stack, the text of its reason, and makers of handles. Included by hdf5*.cpp only.
#pragma once

#include <hdf5.h>

#include <string>
#include <type_traits>

#include "io/hdf5.hpp"

namespace kan::io::detail {

static_assert(std::is_same_v<hid_t, std::int64_t>, "HDF5 1.10 or newer");

/// Turns the automatic printing of errors off, and back to what it was.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
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

}  // namespace kan::io::detail
