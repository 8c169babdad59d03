// Whether all ranks are the same program that does the same thing: facts that each rank
// gathers by itself are compared with those of rank 0. What a difference means (an error,
// a warning) is the caller's to say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/communicator.hpp"

namespace kan::parallel {

/// Something that should be the same on all ranks.
struct Fact {
  std::string name;         ///< "executable"
  std::string value;        ///< what is compared
  std::string remark = {};  ///< shown with the value where ranks differ, not compared
};

struct Difference {
  std::string name;
  std::vector<int> ranks;  ///< all that differ from rank 0, ascending
  int size = 1;            ///< of the communicator
  Fact other, first;       ///< of the first rank that differs, and of rank 0
  /// "executable: rank 1 of 4 has 12ab (/a/kan_driver), rank 0 has 34cd (/b/kan_driver)"
  std::string text() const;
};

/// Collective; the same answer on all ranks. fact: of one name everywhere.
std::optional<Difference> difference(Communicator& communicator, const Fact& fact);
/// Collective. facts: the same names in the same order everywhere.
std::vector<Difference> differences(Communicator& communicator,
                                    const std::vector<Fact>& facts);

/// Collective. Digest of the file that this process runs. The first rank of a node reads
/// it for the ranks there that run the very same file; node: number of this rank's node.
Fact executable_fact(Communicator& communicator, int node);

/// What the CPU offers of the instructions that numerical code chooses between, as the
/// compiler calls them ("avx2 fma ...").
Fact cpu_fact();

}  // namespace kan::parallel
