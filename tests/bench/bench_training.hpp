// The training run of a case: what kan_driver does between its start and its files, with
// history (in memory) and phases on, some updates at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/bench_cases.hpp"

namespace kan::parallel {
class Communicator;
}

namespace kan::bench {

class Training {
 public:
  virtual ~Training() = default;
  struct Time {
    double wall = 0, cpu = 0;  ///< seconds; cpu: of this thread
    double outside = 0;        ///< of wall, outside of kernels: data, output, other
  };
  /// That many more updates.
  virtual Time run(std::int64_t updates) = 0;
  /// "tile/host", leaves.
  virtual std::string engine() const = 0;
  virtual int leaves() const = 0;
  virtual double loss() const = 0;  ///< of the last update
  /// Bytes that the peak of this process's memory rose by since the rows were there.
  virtual std::int64_t memory() const = 0;
};

struct How {
  Kernels kernels = Kernels::automatic;
  EngineKind engine = EngineKind::automatic;
  int batches = 0;  ///< of random rows; 0: 64 MiB at most unless 8 batches take more
};

std::unique_ptr<Training> make_training(parallel::Communicator& communicator,
                                        const Case& c, const How& how);

}  // namespace kan::bench
