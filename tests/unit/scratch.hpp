// A directory of its own for a test, removed at the end of scope, and the capture of a
// kan::Error for checks of its code and words.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "kan/error.hpp"

namespace kan::test {

class Scratch {
 public:
  Scratch() {
    std::string name =
        (std::filesystem::temp_directory_path() / "kan_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Makes a file with this text and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }

 private:
  std::string path_;
};

struct Caught {
  Code code = Code::done;
  std::string message;
  bool has(const std::string& words) const {
    return message.find(words) != std::string::npos;
  }
};

/// The kan::Error that call throws; code done and no message where it throws none.
template <class Call>
Caught error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

}  // namespace kan::test
