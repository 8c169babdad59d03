// Checkpoints: everything a run goes on from, as one HDF5 file that any rank count,
// engine and h5py can read. Layout: checkpoint_layout.hpp and the manual, "Files".
//
// Each dataset has a fletcher32 checksum; the attribute /@digest, written last, is the
// XXH3 digest of all payloads (datasets and attributes of /network, /optimizer, /data,
// /state); and the file is sealed (atomic_file.hpp), so that any changed or missing byte
// is found before HDF5 parses it. A new file is read back and verified before it gets its
// name.
//
// Reading fails with Code::checkpoint and one line, whatever the bytes are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/info.hpp"
#include "kan/state.hpp"

namespace kan::io {

/// What a checkpoint says of itself besides the arrays.
struct CheckpointHeader {
  std::string path, precision, deck, reason, created_utc, engine, data_digest;
  std::int64_t step = 0, epoch = 0, shards = 1;
  double best_loss = 0;
  std::vector<LayerShape> shape;
  bool scale_trained = false;
};

/// Writes the state to path (atomically, replacing). Errors: Code::output.
template <class T>
void write_checkpoint(const std::string& path, const TrainingState<T>& state,
                      const RunInfo& run, Reason reason);

/// Verifies the file and reads all but the arrays; for any precision.
CheckpointHeader read_checkpoint_header(const std::string& path);

/// Errors: damaged, another format version, another precision than T (both are named).
template <class T>
TrainingState<T> read_checkpoint(const std::string& path);

/// Error(Code::checkpoint) naming both values where the deck's network differs.
void check_same_network(const CheckpointHeader& header,
                        const std::vector<LayerShape>& shape, bool scale_trained);

}  // namespace kan::io
