// HDF5 files: move-only owners over the C API, so that no identifier is left open and no
// error is lost. The HDF5 header itself stays inside the hdf5*.cpp.
//
// Every failure is a kan::Error with the code the file was opened under (3 for data, 4
// for output, 5 for checkpoints) and one line: path, object, HDF5's own reason, what to
// do. The library's error stack is silenced during a call and given back afterwards.
//
// Files are the same bytes for the same content (no time stamps). Numbers are stored in
// little-endian IEEE or two's complement of the type written, and converted on reading
// from whatever numeric type is stored: 2.5 or 1e30 read as an integer is an error, 1e300
// read as a float is infinity. Strings are UTF-8 of any length. Threads may use files of
// their own at the same time: one is in the library, the others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kan/error.hpp"

namespace kan::io {

/// Owner of one HDF5 identifier (a file, dataset, type, ...); closed at the end of scope.
class Hdf5Handle {
 public:
  using Closer = int (*)(std::int64_t);
  Hdf5Handle() = default;
  Hdf5Handle(std::int64_t id, Closer closer) : id_(id), closer_(closer) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept { swap(other); }
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    Hdf5Handle(std::move(other)).swap(*this);
    return *this;
  }
  Hdf5Handle(const Hdf5Handle&) = delete;
  Hdf5Handle& operator=(const Hdf5Handle&) = delete;
  ~Hdf5Handle() { close(); }

  std::int64_t id() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// Closes now; false where HDF5 reports a failure (a full disk, for a file).
  bool close() noexcept;

 private:
  void swap(Hdf5Handle& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
  }
  std::int64_t id_ = -1;
  Closer closer_ = nullptr;
};

enum class Hdf5Kind { integer, real, string, other };

/// What is stored under a dataset's name. shape is empty for a scalar.
struct Hdf5Info {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> chunk;  ///< of what is stored together; empty: all
  Hdf5Kind kind = Hdf5Kind::other;
  std::int64_t bytes = 0;  ///< of one value
  bool numeric() const { return kind == Hdf5Kind::integer || kind == Hdf5Kind::real; }
  std::int64_t values() const;  ///< product of shape
};

struct Hdf5WriteOptions {
  bool fletcher32 = false;  ///< checksum per chunk of about 1 MiB, verified by every read
};

class Hdf5File {
 public:
  /// Opens an existing file for reading. Errors: missing, a directory, empty, not HDF5,
  /// truncated, no permission, locked by a writer.
  static Hdf5File open(const std::string& path, Code code = Code::data);
  /// Makes a new file, replacing what is there. The folder must exist.
  static Hdf5File create(const std::string& path, Code code = Code::output);

  /// The same without a disk: a new file in memory, its bytes once all is written (the
  /// file is closed), and a file read from such bytes. name: stands for the path in
  /// messages.
  static Hdf5File create_in_memory(const std::string& name, Code code = Code::output);
  std::vector<std::byte> close_to_bytes();
  static Hdf5File open_bytes(std::span<const std::byte> bytes, const std::string& name,
                             Code code = Code::data);

  const std::string& path() const { return path_; }
  Code code() const { return code_; }
  void flush();
  /// Flushes and closes; what the destructor does too, but with errors reported.
  void close();

  /// Object names are paths from the root; the leading "/" may be left out.
  bool exists(const std::string& name) const;
  /// Names (not paths) of the members of a group, in alphabetical order.
  std::vector<std::string> children(const std::string& group) const;
  /// Full paths of all datasets below a group, depth first, at most 1000.
  std::vector<std::string> datasets(const std::string& group = "/") const;
  /// Makes a group and its parents where missing.
  void make_group(const std::string& name);

  /// Attributes of an existing group or dataset; writing replaces.
  void write_attribute(const std::string& object, const std::string& name,
                       const std::string& value);
  void write_attribute(const std::string& object, const std::string& name,
                       const char* value) {
    write_attribute(object, name, std::string(value));
  }
  void write_attribute(const std::string& object, const std::string& name,
                       std::int64_t value);
  void write_attribute(const std::string& object, const std::string& name, int value) {
    write_attribute(object, name, static_cast<std::int64_t>(value));
  }
  void write_attribute(const std::string& object, const std::string& name, double value);
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::vector<std::string> attributes(const std::string& object) const;
  std::string read_string_attribute(const std::string& object,
                                    const std::string& name) const;
  std::int64_t read_int_attribute(const std::string& object,
                                  const std::string& name) const;
  double read_double_attribute(const std::string& object, const std::string& name) const;

  /// Shape and type of a dataset; an error with the list of datasets where it is missing.
  Hdf5Info info(const std::string& name) const;

  /// T: float, double, std::int32_t, std::int64_t, std::uint64_t, std::int8_t,
  /// std::uint8_t. create_dataset makes a dataset (and its groups), write_rows fills rows
  /// [begin, end) of its first dimension; write does both. data: row-major, product of
  /// the shape values.
  template <class T>
  void create_dataset(const std::string& name, const std::vector<std::int64_t>& shape,
                      const Hdf5WriteOptions& options = {});
  template <class T>
  void write_rows(const std::string& name, const T* data, std::int64_t begin,
                  std::int64_t end);
  template <class T>
  void write(const std::string& name, const T* data,
             const std::vector<std::int64_t>& shape,
             const Hdf5WriteOptions& options = {}) {
    create_dataset<T>(name, shape, options);
    write_rows<T>(name, data, 0, shape.empty() ? 1 : shape[0]);
  }
  template <class T>
  void write(const std::string& name, const std::vector<T>& data,
             const std::vector<std::int64_t>& shape,
             const Hdf5WriteOptions& options = {}) {
    std::int64_t values = 1;
    for (const std::int64_t n : shape) values *= n;
    KAN_REQUIRE(values == static_cast<std::int64_t>(data.size()),
                "HDF5 write of '" + name + "': shape and data differ in size");
    write<T>(name, data.data(), shape, options);
  }

  /// Whole dataset, or rows [begin, end) of its first dimension; row-major.
  template <class T>
  std::vector<T> read(const std::string& name) const;
  template <class T>
  std::vector<T> read_rows(const std::string& name, std::int64_t begin,
                           std::int64_t end) const;
  /// The same, where only this shape is acceptable.
  template <class T>
  std::vector<T> read(const std::string& name,
                      const std::vector<std::int64_t>& shape) const;

  /// One-dimensional datasets of strings.
  void write_strings(const std::string& name, const std::vector<std::string>& values);
  std::vector<std::string> read_strings(const std::string& name) const;

 private:
  friend class Hdf5Rows;
  Hdf5File(std::string path, Code code) : path_(std::move(path)), code_(code) {}
  Hdf5Handle object(const std::string& name) const;
  Hdf5Handle dataset(const std::string& name) const;
  Hdf5Handle attribute(const std::string& object, const std::string& name) const;
  void make_parents(const std::string& name);
  void replace_attribute(const std::string& object, const std::string& name,
                         const Hdf5Handle& type, const void* value);
  void read_values(const std::string& name, std::int64_t memory_type, void* out,
                   std::int64_t begin, std::int64_t end) const;
  void write_values(const std::string& name, std::int64_t memory_type, const void* data,
                    std::int64_t begin, std::int64_t end);
  [[noreturn]] void fail(const std::string& what, const std::string& advice) const;

  std::string path_;
  Code code_;
  Hdf5Handle file_;
};

/// "(3, 4)", "(5,)", "()" as Python writes shapes.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Type and mount point of the file system that holds path, e.g. "nfs4 on /home".
std::string file_system(const std::string& path);

}  // namespace kan::io
