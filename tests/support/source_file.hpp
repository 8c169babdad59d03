// Files of the checkout that tests read. Found at run time, so that objects do not hold
// the path of a checkout and compiler caches serve all of them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace kan::test {

/// Absolute path of a file of the checkout: below KAN_SOURCE_DIR (ctest sets it), else
/// below the nearest parent of the current directory that has it.
inline std::string source_file(const std::string& relative) {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("KAN_SOURCE_DIR"))
    return (fs::path(root) / relative).string();
  for (fs::path at = fs::current_path(); at != at.root_path(); at = at.parent_path())
    if (fs::exists(at / relative)) return (at / relative).string();
  throw std::runtime_error(relative +
                           ": run this in the checkout, or set KAN_SOURCE_DIR");
}

}  // namespace kan::test
