// The figures at the end of a run: NAME.report.json for programs, a table for people. A
// figure that does not exist (no test set, no classes) or is not finite is null in the
// file and left out of the table.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "io/info.hpp"

namespace kan::io {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Seconds of a phase over the ranks.
struct PhaseSeconds {
  double min = 0, mean = 0, max = 0;
};

struct Report {
  std::string exit_reason =
      "done";  ///< done, target_loss, patience, walltime, signal, ...
  int exit_code = 0;
  std::int64_t steps = 0, epochs = 0;  ///< done, over all launches
  std::int64_t samples = 0;            ///< rows of all updates of this launch
  double wall_seconds = 0;             ///< of the same updates
  double samples_per_second = kNone, steady_samples_per_second = kNone;
  double train_loss = kNone, validation_loss = kNone, test_loss = kNone;
  double train_accuracy = kNone, validation_accuracy = kNone, test_accuracy = kNone;
  double train_rmse = kNone, validation_rmse = kNone, test_rmse = kNone;
  std::int64_t parameters_trained = 0, parameters_pykan = 0, peak_memory_bytes = 0;
  /// Sums of gradients over ranks, of rank 0: number, bytes and seconds of one; none: 0.
  std::int64_t sums = 0, sum_bytes = 0;
  double sum_shortest = kNone, sum_median = kNone, sum_longest = kNone;
  std::vector<std::pair<std::string, PhaseSeconds>>
      phases;                      ///< in the order of the table
  std::vector<std::string> files;  ///< written, for the table
};

/// One object: the keys of Report, phases.NAME.{min,mean,max}, and what of RunInfo tells
/// results apart (ranks, threads, precision, backend, versions).
std::string report_json(const Report& report, const RunInfo& run);

/// Writes it atomically. Errors: Code::output.
void write_report(const std::string& path, const Report& report, const RunInfo& run);

/// Why the run ended, its speed, a table of phases (seconds, % of the wall time), losses
/// and files.
std::string report_text(const Report& report, const RunInfo& run);

}  // namespace kan::io
