// How the team form cuts its work: tiles and blocks of stage 1, blocks of edges of stage
// 2, chunks of rows. All from shapes, sizes and precision, for the 32 KiB of scratch that
// every device has, so that nothing depends on the device; only the tile shows in bits
// (the loss is added up tile by tile).
//
// Tile: the largest of 32, 16, 8, 4 rows that fits 24 KiB, so that two teams share a
// multiprocessor with 64 KiB, and smaller where the batch would make fewer than 128
// teams, which is about what a device has multiprocessors: a batch of 512 has 128 tiles
// of 4 rows; in large batches the rows of a tile share the coefficients they read. Edges
// of a team: as many outputs as there are up to 128, inputs for the rest.
#pragma once

#include <vector>

#include "kan/engine/team_launch.hpp"

namespace kan {

/// Bytes of rows that stage 1 leaves for stage 2, at most.
inline constexpr std::int64_t kTeamWorkspace = std::int64_t(64) << 20;

template <class T>
class TeamPlan {
 public:
  /// workspace: bytes of the buffer, at most (32 rows always fit).
  TeamPlan(const Plan<T>& plan, std::int64_t workspace);

  /// Sizes of scratch and chunks of a batch of `rows` rows in `leaves` leaves.
  struct Sizes {
    int tile, block, activations_level;
    TileScratch scratch;
    std::int64_t most_rows;   ///< of a leaf
    std::int64_t part_rows;   ///< of a leaf in a chunk
    int leaves;               ///< of a chunk, at most
    int tiles;                ///< of a leaf in a chunk
    std::int64_t chunk_rows;  ///< at most
  };
  Sizes sizes(std::int64_t rows, int leaves) const;

  const std::vector<TeamCut>& cuts() const { return cuts_; }
  int teams() const { return teams_; }  ///< of stage 2, a leaf
  int widest() const { return widest_; }
  int order() const { return order_; }  ///< of all layers; 0 where they differ
  std::int64_t row_numbers() const { return row_numbers_; }  ///< of the buffer
  bool sums_in_table() const { return sums_in_table_; }      ///< of stage 2
  std::int64_t gradient_scratch() const { return gradient_scratch_; }

 private:
  TileScratch tile_scratch(int tile) const;

  std::vector<TeamCut> cuts_;
  int layers_, teams_ = 0, widest_ = 0, order_, most_order_ = 0;
  bool sums_in_table_ = false;
  std::int64_t row_numbers_ = 0, gradient_scratch_ = 0, most_chunk_rows_;
};

}  // namespace kan
