// What an <outputN> block of the deck asks for.
#pragma once

#include <cstdint>

namespace kan::io {

enum class OutputType { history, restart, prediction, parameters };

/// One of dstep, depoch, dwall is the cadence; 0: not by this one.
struct OutputOptions {
  int number = 1;  ///< N of <outputN>
  OutputType type = OutputType::history;
  std::int64_t dstep = 0;
  std::int64_t depoch = 0;
  std::int64_t dwall = 0;  ///< seconds
  int keep = 3;            ///< restart: the last ones kept
  bool enabled = true;
};

}  // namespace kan::io
