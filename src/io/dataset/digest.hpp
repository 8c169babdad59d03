// Digest of data: xxHash (XXH3, 128 bits) of bytes in the order in which they are added.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/dataset/dataset.hpp"

namespace kan::io {

class DataDigest {
 public:
  DataDigest();
  void add(const void* bytes, std::size_t size);
  /// Sizes and values of a set.
  void add(const DataSet& set);
  /// High and low half of the digest of what was added so far.
  std::array<std::uint64_t, 2> value() const;
  std::string text() const;  ///< 32 hexadecimal digits

 private:
  std::unique_ptr<void, void (*)(void*)> state_;
};

}  // namespace kan::io
