#include "kan/engine/team_plan.hpp"

#include <algorithm>

#include "kan/engine/team_gradient.hpp"
#include "kan/engine/team_tile.hpp"

namespace kan {
namespace {

constexpr std::int64_t kScratchBytes = 32 * 1024;
constexpr std::int64_t kTileBytes = 24 * 1024;   // where a smaller tile exists
constexpr std::int64_t kSumBytes = 20 * 1024;    // of the sums of a block of edges
constexpr std::int64_t kChunkBytes = 13 * 1024;  // of basis and dy of stage 2
constexpr int kLargestTile = 32, kSmallestTile = 4, kMostSamples = 64;
constexpr std::int64_t kTeams = 128;

int blocks(int count, int each) { return (count + each - 1) / each; }

// Inputs of a block of stage 1: enough entries (row, input) for the threads of a team.
int block_of(int tile) { return std::clamp(kTeamThreads / tile, 8, 32); }

template <class T>
TeamCut cut_layer(const LayerPlan& p) {
  TeamCut cut;
  cut.outputs = blocks(p.out, blocks(p.out, kTeamThreads));
  cut.inputs = std::clamp(kTeamThreads / cut.outputs, 1, p.in);
  cut.output_blocks = blocks(p.out, cut.outputs);
  cut.input_blocks = blocks(p.in, cut.inputs);
  for (cut.samples = kMostSamples;
       cut.samples > 1 && gradient_bytes<T>(p, cut, true) > kChunkBytes;)
    cut.samples /= 2;
  return cut;
}

}  // namespace

template <class T>
TeamPlan<T>::TeamPlan(const Plan<T>& plan, std::int64_t workspace)
    : layers_(int(plan.layers.size())), order_(plan.layers[0].order) {
  for (const LayerPlan& p : plan.layers) {
    TeamCut cut = cut_layer<T>(p);
    cut.first_team = teams_;
    teams_ += cut.input_blocks * cut.output_blocks;
    cut.x = row_numbers_;
    cut.dy = row_numbers_ + p.in;
    row_numbers_ += p.in + p.out;
    sums_in_table_ |= sum_numbers(p, cut, false) * std::int64_t(sizeof(T)) > kSumBytes;
    widest_ = std::max(widest_, p.out);
    most_order_ = std::max(most_order_, p.order);
    if (p.order != order_) order_ = 0;
    cuts_.push_back(cut);
  }
  for (int l = 0; l < layers_; ++l)
    gradient_scratch_ = std::max(
        gradient_scratch_, gradient_bytes<T>(plan.layers[l], cuts_[l], sums_in_table_));
  most_chunk_rows_ = std::max<std::int64_t>(
      kLargestTile, workspace / (row_numbers_ * std::int64_t(sizeof(T))));
}

template <class T>
TileScratch TeamPlan<T>::tile_scratch(int tile) const {
  return {tile_bytes<T>(tile, block_of(tile), most_order_, layers_),
          activation_bytes<T>(tile, widest_), most_order_};
}

template <class T>
typename TeamPlan<T>::Sizes TeamPlan<T>::sizes(std::int64_t rows, int leaves) const {
  Sizes s;
  const auto bytes = [&](int tile) {
    const TileScratch scratch = tile_scratch(tile);
    return scratch.near + (s.activations_level == 0 ? scratch.far : 0);
  };
  s.activations_level = 0;
  if (bytes(kSmallestTile) > kScratchBytes) s.activations_level = 1;
  for (s.tile = kLargestTile;
       s.tile > kSmallestTile && (rows / s.tile < kTeams || bytes(s.tile) > kTileBytes);)
    s.tile /= 2;
  s.block = block_of(s.tile);
  s.scratch = tile_scratch(s.tile);

  s.most_rows = std::max<std::int64_t>(1, (rows + leaves - 1) / leaves);
  if (s.most_rows <= most_chunk_rows_) {
    s.part_rows = s.most_rows;
    s.leaves = int(std::min<std::int64_t>(leaves, most_chunk_rows_ / s.most_rows));
  } else {
    s.part_rows = most_chunk_rows_ / s.tile * s.tile;
    s.leaves = 1;
  }
  s.tiles = int((s.part_rows + s.tile - 1) / s.tile);
  s.chunk_rows = s.part_rows * s.leaves;
  return s;
}

template class TeamPlan<float>;
template class TeamPlan<double>;

}  // namespace kan
