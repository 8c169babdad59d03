// Sums over the rows of a set, for its metrics. The rows are cut into leaves whatever the
// number of ranks, each rank takes a contiguous range of leaves, and leaf sums are
// gathered and added along the one tree: sums have the same bits for every number of
// ranks. A set that is too large for memory is a sequence of such sets.
#pragma once

#include <cstdint>
#include <vector>

#include "kan/engine/engine.hpp"
#include "kan/row_feed.hpp"
#include "parallel/communicator.hpp"
#include "parallel/partition.hpp"

namespace kan {

/// Who works on which of `rows` rows.
struct EvaluationParts {
  std::int64_t rows = 0;
  int leaves = 1, ranks = 1;
  EvaluationParts(std::int64_t rows, int ranks);
  parallel::Range own_leaves(int rank) const {
    return parallel::rank_leaves(leaves, ranks, rank);
  }
  parallel::Range own_rows(int rank) const;
};

/// Over all rows, on all ranks; not divided by anything.
struct EvaluationSums {
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<std::int64_t> outside;
};

/// Collective. set: at least this rank's rows, beginning with row `first`. prediction:
/// (rows, out), of which this rank's rows are filled; or empty.
template <class T>
EvaluationSums evaluation_sums(const Exec& exec, Engine<T>& engine,
                               parallel::Communicator& communicator,
                               const EvaluationParts& parts, const RowSet<T>& set,
                               std::int64_t first, LossKind loss,
                               const View2<T>& prediction);

/// Collective. Sum of one number a leaf along the tree; leaves: those of other ranks are
/// ignored.
double sum_leaves(parallel::Communicator& communicator, const EvaluationParts& parts,
                  std::vector<double> leaves);

/// Collective. Every rank's rows of an array (rows, columns) to all ranks, in place.
template <class T>
void gather_rows(parallel::Communicator& communicator, const EvaluationParts& parts,
                 T* values, std::int64_t columns);

}  // namespace kan
