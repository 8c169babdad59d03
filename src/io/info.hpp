// Who made a file: the attributes of /info and the deck in /input@deck that every HDF5
// file carries, so that a result found years later tells its build, machine, run and
// step.
#pragma once

#include <cstdint>
#include <string>

#include "io/hdf5.hpp"

namespace kan::io {

inline constexpr std::int64_t kFormatVersion = 1;

/// Release ("0.1.0"), commit of the sources ("1a2b3c4d5e6f-dirty", "unknown" outside a
/// checkout), compiler, Kokkos, all of this build.
std::string code_version();
std::string git_hash();
std::string compiler();
std::string kokkos_version();
/// Name of the default execution space: "OpenMP", "Serial", "Cuda", ...
std::string backend();
/// What that space runs on: the model of the CPU, or the backend's own number of a
/// device.
std::string device();
std::string hostname();
/// "2031-01-02T03:04:05Z"
std::string utc_now();

/// The same for all files of a run.
struct RunInfo {
  std::string mpi;  ///< library and version, "none" without
  int ranks = 1, threads = 1;
  std::string precision;  ///< "float" or "double"
  std::string deck;       ///< the resolved deck
  std::string device = io::device();
  /// False where sums of gradients were left out: what comes of it is no trained network.
  bool training = true;
};

/// Why a file was written, in /info@reason.
enum class Reason { cadence, final, walltime, signal, request };
std::string to_string(Reason reason);

/// Where the run stood.
struct Moment {
  std::int64_t step = 0, epoch = 0, samples_seen = 0;
  double elapsed = 0;
  Reason reason = Reason::cadence;
};

void write_info(Hdf5File& file, const RunInfo& run, const Moment& moment);

/// Attributes that every dataset carries. dims: names of the dimensions, "row, out".
void describe(Hdf5File& file, const std::string& dataset, const std::string& units,
              const std::string& dims, const std::string& description);

}  // namespace kan::io
