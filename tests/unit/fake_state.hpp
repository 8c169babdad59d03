// Training states with made-up but deterministic content, for tests of files: every value
// is a function of a seed and its place, and all members differ from their defaults.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kan/state.hpp"

namespace kan::test {

/// A number in [-1, 1) with all bits in use, from a 64-bit mix (splitmix64).
inline double mixed(std::uint64_t seed, std::uint64_t place) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15ull + place * 0xbf58476d1ce4e5b9ull + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>(z ^ (z >> 31)) / 9223372036854775808.0 - 1;
}

template <class T>
std::vector<T> mixed_array(std::size_t size, std::uint64_t seed, std::uint64_t& place) {
  std::vector<T> values(size);
  for (T& value : values) value = static_cast<T>(mixed(seed, place++));
  return values;
}

template <class T>
std::vector<LayerArrays<T>> fake_arrays(const std::vector<LayerShape>& shape, bool scaled,
                                        std::uint64_t seed, std::uint64_t& place) {
  std::vector<LayerArrays<T>> all;
  for (const LayerShape& layer : shape) {
    const std::size_t edges = static_cast<std::size_t>(layer.in) * layer.out;
    LayerArrays<T>& arrays = all.emplace_back();
    arrays.coef = mixed_array<T>(
        edges * static_cast<std::size_t>(layer.grid + layer.order), seed, place);
    if (layer.base != Base::none) arrays.scale_base = mixed_array<T>(edges, seed, place);
    if (scaled) arrays.scale_spline = mixed_array<T>(edges, seed, place);
  }
  return all;
}

inline std::vector<LayerShape> fake_shape() {
  return {
      {2, 5, 5, 3, Base::silu}, {5, 3, 4, 2, Base::none}, {3, 1, 7, 1, Base::identity}};
}

/// moments: arrays of the optimizer, 0 to 2.
template <class T>
TrainingState<T> fake_state(std::uint64_t seed = 1, int moments = 2, bool scaled = true,
                            const std::vector<LayerShape>& shape = fake_shape()) {
  TrainingState<T> state;
  std::uint64_t place = 0;
  state.shape = shape;
  state.scale_trained = scaled;
  for (const LayerShape& layer : shape) {
    state.grid.push_back(mixed_array<double>(
        static_cast<std::size_t>(layer.in) *
            static_cast<std::size_t>(layer.grid + 2 * layer.order + 1),
        seed, place));
  }
  state.parameters = fake_arrays<T>(shape, scaled, seed, place);
  if (moments > 0) state.first_moment = fake_arrays<T>(shape, scaled, seed, place);
  if (moments > 1) state.second_moment = fake_arrays<T>(shape, scaled, seed, place);
  Progress& progress = state.progress;
  progress.step = 12345;
  progress.epoch = 7;
  progress.position = 0x0123456789abcdef;
  progress.seed = 0xfedcba9876543210ull;
  progress.samples_seen = 6320640;
  progress.optimizer_step = 12344;
  progress.elapsed = 12.345678901234567;
  progress.best_loss = mixed(seed, place++);
  progress.best_epoch = 6;
  progress.history_rows = 1235;
  progress.epoch_loss_sum = mixed(seed, place++) * 1000;
  progress.epoch_correct = 321;
  progress.epoch_outside = {11, 0, 13};
  state.input_scaling = {mixed_array<double>(2, seed, place),
                         mixed_array<double>(2, seed, place)};
  state.target_scaling = {mixed_array<double>(1, seed, place),
                          mixed_array<double>(1, seed, place)};
  state.data_digest = "0123456789abcdef";
  state.engine = "tile/host";
  state.shards = 8;
  state.vector_bytes = 32;
  return state;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

template <class T>
bool same_bits(const std::vector<LayerArrays<T>>& a,
               const std::vector<LayerArrays<T>>& b) {
  bool same = a.size() == b.size();
  for (std::size_t l = 0; same && l < a.size(); ++l) {
    same = same_bits(a[l].coef, b[l].coef) &&
           same_bits(a[l].scale_base, b[l].scale_base) &&
           same_bits(a[l].scale_spline, b[l].scale_spline);
  }
  return same;
}

/// Equal in every member, reals bit for bit. elapsed is left out: it is a time.
template <class T>
bool same_state(const TrainingState<T>& a, const TrainingState<T>& b) {
  bool same = a.shape.size() == b.shape.size() && a.scale_trained == b.scale_trained &&
              a.grid.size() == b.grid.size();
  for (std::size_t l = 0; same && l < a.shape.size(); ++l) {
    const LayerShape &x = a.shape[l], &y = b.shape[l];
    same = x.in == y.in && x.out == y.out && x.grid == y.grid && x.order == y.order &&
           x.base == y.base && same_bits(a.grid[l], b.grid[l]);
  }
  const Progress &p = a.progress, &q = b.progress;
  return same && same_bits(a.parameters, b.parameters) &&
         same_bits(a.first_moment, b.first_moment) &&
         same_bits(a.second_moment, b.second_moment) && p.step == q.step &&
         p.epoch == q.epoch && p.position == q.position && p.seed == q.seed &&
         p.samples_seen == q.samples_seen && p.optimizer_step == q.optimizer_step &&
         same_bits(p.best_loss, q.best_loss) && p.best_epoch == q.best_epoch &&
         p.history_rows == q.history_rows &&
         same_bits(p.epoch_loss_sum, q.epoch_loss_sum) &&
         p.epoch_correct == q.epoch_correct && p.epoch_outside == q.epoch_outside &&
         same_bits(a.input_scaling.scale, b.input_scaling.scale) &&
         same_bits(a.input_scaling.shift, b.input_scaling.shift) &&
         same_bits(a.target_scaling.scale, b.target_scaling.scale) &&
         same_bits(a.target_scaling.shift, b.target_scaling.shift) &&
         a.data_digest == b.data_digest && a.engine == b.engine && a.shards == b.shards &&
         a.vector_bytes == b.vector_bytes;
}

}  // namespace kan::test
