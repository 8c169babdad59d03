// Datasets of HDF5 files. Rows are hyperslabs of the first dimension. Checksummed
// datasets are cut into chunks of whole trailing dimensions of about 1 MiB. Conversions
// are HDF5's own, with a callback that refuses what would be clipped or cut.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

#include "io/hdf5_detail.hpp"

namespace kan::io {

using namespace detail;

namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;

/// Memory and file types of what read and write are instantiated for.
template <class T>
struct Types;
#define KAN_HDF5_TYPE(type, memory_id, file_id) \
  template <>                                   \
  struct Types<type> {                          \
    static hid_t memory() { return memory_id; } \
    static hid_t file() { return file_id; }     \
  };
KAN_HDF5_TYPE(float, H5T_NATIVE_FLOAT, H5T_IEEE_F32LE)
KAN_HDF5_TYPE(double, H5T_NATIVE_DOUBLE, H5T_IEEE_F64LE)
KAN_HDF5_TYPE(std::int8_t, H5T_NATIVE_INT8, H5T_STD_I8LE)
KAN_HDF5_TYPE(std::uint8_t, H5T_NATIVE_UINT8, H5T_STD_U8LE)
KAN_HDF5_TYPE(std::int32_t, H5T_NATIVE_INT32, H5T_STD_I32LE)
KAN_HDF5_TYPE(std::int64_t, H5T_NATIVE_INT64, H5T_STD_I64LE)
KAN_HDF5_TYPE(std::uint64_t, H5T_NATIVE_UINT64, H5T_STD_U64LE)
#undef KAN_HDF5_TYPE

/// Stops a read of whole numbers in which a value would be clipped or cut. A real that is
/// too large becomes infinity, as in a cast.
H5T_conv_ret_t refuse_loss(H5T_conv_except_t what, hid_t, hid_t target, void*, void*,
                           void* seen) {
  const bool lost =
      H5Tget_class(target) == H5T_INTEGER && what != H5T_CONV_EXCEPT_PRECISION;
  if (!lost) return H5T_CONV_UNHANDLED;
  *static_cast<bool*>(seen) = true;
  return H5T_CONV_ABORT;
}

std::vector<hsize_t> chunk_of(const std::vector<std::int64_t>& shape,
                              std::int64_t bytes) {
  std::vector<hsize_t> chunk(shape.size(), 1);
  std::int64_t room = std::max<std::int64_t>(1, kChunkBytes / bytes);
  for (std::size_t d = shape.size(); d-- > 0 && room > 0;) {
    const std::int64_t n = std::min(shape[d], room);
    chunk[d] = static_cast<hsize_t>(n);
    room = n < shape[d] ? 0 : room / n;
  }
  return chunk;
}

}  // namespace

namespace detail {

Hdf5Handle select_rows(hid_t file_space, const std::vector<std::int64_t>& shape,
                       std::int64_t begin, std::int64_t end) {
  if (shape.empty()) return own_space(H5Screate(H5S_SCALAR));
  std::vector<hsize_t> start(shape.size(), 0), count(shape.begin(), shape.end());
  start[0] = static_cast<hsize_t>(begin);
  count[0] = static_cast<hsize_t>(end - begin);
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, start.data(), nullptr, count.data(),
                      nullptr);
  return own_space(
      H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
}

}  // namespace detail

std::int64_t Hdf5Info::values() const {
  std::int64_t product = 1;
  for (const std::int64_t n : shape) product *= n;
  return product;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  if (shape.size() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape, ", "));
}

Hdf5Info Hdf5File::info(const std::string& name) const {
  const LibraryCall call;
  const Hdf5Handle set = dataset(name);
  const Hdf5Handle type = own_type(H5Dget_type(set.id()));
  const Hdf5Handle space = own_space(H5Dget_space(set.id()));
  if (!type || !space)
    fail(fmt::format("dataset '{}' has no readable type", name),
         "the file may be damaged");
  const int rank = H5Sget_simple_extent_ndims(space.id());
  std::vector<hsize_t> extent(static_cast<std::size_t>(std::max(rank, 0)));
  H5Sget_simple_extent_dims(space.id(), extent.data(), nullptr);
  Hdf5Info out;
  out.shape.assign(extent.begin(), extent.end());
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) out.shape = {0};
  const Hdf5Handle creation = own_property(H5Dget_create_plist(set.id()));
  if (rank > 0 && H5Pget_layout(creation.id()) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(static_cast<std::size_t>(rank));
    H5Pget_chunk(creation.id(), rank, chunk.data());
    out.chunk.assign(chunk.begin(), chunk.end());
  }
  out.kind = kind_of(type.id());
  out.bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
  return out;
}

template <class T>
void Hdf5File::create_dataset(const std::string& name,
                              const std::vector<std::int64_t>& shape,
                              const Hdf5WriteOptions& options) {
  const LibraryCall call;
  make_parents(name);
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  const Hdf5Handle space =
      own_space(extent.empty() ? H5Screate(H5S_SCALAR)
                               : H5Screate_simple(static_cast<int>(extent.size()),
                                                  extent.data(), nullptr));
  const Hdf5Handle creation = own_property(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.id(), false);
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (options.fletcher32 && !shape.empty() && !empty) {
    const std::vector<hsize_t> chunk = chunk_of(shape, sizeof(T));
    H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data());
    H5Pset_fletcher32(creation.id());
  }
  const Hdf5Handle set =
      own_dataset(H5Dcreate2(file_.id(), name.c_str(), Types<T>::file(), space.id(),
                             H5P_DEFAULT, creation.id(), H5P_DEFAULT));
  if (!set)
    fail(fmt::format("cannot make the dataset '{}'", name), "check the space left");
}

void Hdf5File::write_values(const std::string& name, std::int64_t memory_type,
                            const void* data, std::int64_t begin, std::int64_t end) {
  const Hdf5Info about = info(name);
  KAN_REQUIRE(
      0 <= begin && begin <= end && end <= (about.shape.empty() ? 1 : about.shape[0]),
      "HDF5 write of '" + name + "': rows outside the dataset");
  if (begin == end || about.values() == 0) return;
  const Hdf5Handle set = dataset(name);
  const Hdf5Handle file_space = own_space(H5Dget_space(set.id()));
  const Hdf5Handle space = select_rows(file_space.id(), about.shape, begin, end);
  if (H5Dwrite(set.id(), memory_type, space.id(), file_space.id(), H5P_DEFAULT, data) <
      0) {
    fail(fmt::format("cannot write the dataset '{}'", name),
         "check the space left and the quota");
  }
}

void Hdf5File::read_values(const std::string& name, std::int64_t memory_type, void* out,
                           std::int64_t begin, std::int64_t end) const {
  const Hdf5Info about = info(name);
  if (begin == end || about.values() == 0) return;
  const Hdf5Handle set = dataset(name);
  const Hdf5Handle file_space = own_space(H5Dget_space(set.id()));
  const Hdf5Handle space = select_rows(file_space.id(), about.shape, begin, end);
  const Hdf5Handle transfer = own_property(H5Pcreate(H5P_DATASET_XFER));
  bool lost = false;
  H5Pset_type_conv_cb(transfer.id(), refuse_loss, &lost);
  if (H5Dread(set.id(), memory_type, space.id(), file_space.id(), transfer.id(), out) >=
      0)
    return;
  if (lost) {
    throw Error(
        code_, fmt::format("{}: dataset '{}' holds values that do not fit the type asked "
                           "for ({}-byte whole numbers)",
                           path_, name, H5Tget_size(memory_type)));
  }
  fail(fmt::format("dataset '{}' cannot be read", name),
       "the file may be damaged: copy or write it again");
}

template <class T>
void Hdf5File::write_rows(const std::string& name, const T* data, std::int64_t begin,
                          std::int64_t end) {
  const LibraryCall call;
  write_values(name, Types<T>::memory(), data, begin, end);
}

template <class T>
std::vector<T> Hdf5File::read_rows(const std::string& name, std::int64_t begin,
                                   std::int64_t end) const {
  const LibraryCall call;
  const Hdf5Info about = info(name);
  if (!about.numeric()) {
    throw Error(code_,
                fmt::format("{}: dataset '{}' does not hold numbers", path_, name));
  }
  const std::int64_t rows = about.shape.empty() ? 1 : about.shape[0];
  if (begin < 0 || begin > end || end > rows) {
    throw Error(code_, fmt::format("{}: dataset '{}' has rows 0 to {}, not {}:{}", path_,
                                   name, rows - 1, begin, end));
  }
  const std::int64_t values = rows == 0 ? 0 : about.values() / rows * (end - begin);
  std::vector<T> out;
  try {
    out.resize(static_cast<std::size_t>(values));
  } catch (const std::exception&) {
    throw Error(
        code_, fmt::format("{}: dataset '{}' of shape {} does not fit into memory", path_,
                           name, shape_text(about.shape)));
  }
  read_values(name, Types<T>::memory(), out.data(), begin, end);
  return out;
}

template <class T>
std::vector<T> Hdf5File::read(const std::string& name) const {
  const Hdf5Info about = info(name);
  return read_rows<T>(name, 0, about.shape.empty() ? 1 : about.shape[0]);
}

template <class T>
std::vector<T> Hdf5File::read(const std::string& name,
                              const std::vector<std::int64_t>& shape) const {
  const Hdf5Info about = info(name);
  if (about.shape != shape) {
    throw Error(code_, fmt::format("{}: dataset '{}' has shape {}, expected is {}", path_,
                                   name, shape_text(about.shape), shape_text(shape)));
  }
  return read<T>(name);
}

#define KAN_HDF5_INSTANCES(T)                                                         \
  template void Hdf5File::create_dataset<T>(                                          \
      const std::string&, const std::vector<std::int64_t>&, const Hdf5WriteOptions&); \
  template void Hdf5File::write_rows<T>(const std::string&, const T*, std::int64_t,   \
                                        std::int64_t);                                \
  template std::vector<T> Hdf5File::read<T>(const std::string&) const;                \
  template std::vector<T> Hdf5File::read_rows<T>(const std::string&, std::int64_t,    \
                                                 std::int64_t) const;                 \
  template std::vector<T> Hdf5File::read<T>(const std::string&,                       \
                                            const std::vector<std::int64_t>&) const;
KAN_HDF5_INSTANCES(float)
KAN_HDF5_INSTANCES(double)
KAN_HDF5_INSTANCES(std::int8_t)
KAN_HDF5_INSTANCES(std::uint8_t)
KAN_HDF5_INSTANCES(std::int32_t)
KAN_HDF5_INSTANCES(std::int64_t)
KAN_HDF5_INSTANCES(std::uint64_t)
#undef KAN_HDF5_INSTANCES

}  // namespace kan::io
