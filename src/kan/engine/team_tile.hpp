// Stage 1 of the team form: one team takes a tile of rows, which never crosses a leaf,
// through all layers forward, the loss, and all layers back to the gradient of the
// inputs. For stage 2 it leaves x and dy of every layer in the buffer (team_task.hpp),
// and sums of the tile. Nothing is added to anything that another team writes.
//
// Basis values of a block of inputs and the activations of the layer at hand are in
// scratch (activations of very wide layers in global memory). Neighbouring threads take
// neighbouring outputs, so they read neighbouring coefficients. Where a sum has few
// owners it is made of parts: a narrow layer's output of one part per input, the gradient
// of an input of every eighth output; parts are added in order. Compiled once per order;
// K = 0 reads the order of each layer at run time.
#pragma once

#include "kan/engine/team_launch.hpp"

namespace kan {

inline constexpr int kTeamParts = 8;  // of a sum; a layer with so many outputs is narrow

/// Bytes of scratch of a tile: what is always near, and activations.
template <class T>
std::int64_t tile_bytes(int tile, int block, int order, int layers) {
  const std::int64_t entries = std::int64_t(tile) * block;
  return tile * (sizeof(double) + sizeof(std::int64_t) + sizeof(int)) +
         entries * ((order + 2 + kTeamParts) * sizeof(T) + sizeof(int)) +
         layers * sizeof(int) + 32;
}
template <class T>
std::int64_t activation_bytes(int tile, int widest) {
  return 2 * std::int64_t(tile) * widest * sizeof(T) + 32;
}

template <class T, int K>
struct TeamTile {
  using Policy =
      Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeamThreads, kTeamsHeld<T>>>;
  using Member = typename Policy::member_type;
  TeamTask<T> task;
  TileScratch bytes;

  struct Scratch {
    double* row_loss;
    std::int64_t* row;  ///< in the data set
    T *basis, *base, *parts;
    int *row_of, *hit, *outside;  ///< row_of: of coefficients, in the block
    T *here, *next;  ///< activations or their gradient; what is being made of it
    int entries;     ///< distance between basis values of an entry (row, input)
  };

  KOKKOS_FUNCTION Scratch scratch(const Member& team) const {
    Scratch s;
    s.entries = task.tile * task.block;
    ScratchCutter near(team.team_scratch(0).get_shmem_aligned(bytes.near - 16, 16));
    s.row_loss = near.take<double>(task.tile);
    s.row = near.take<std::int64_t>(task.tile);
    s.basis = near.take<T>((bytes.most_order + 1) * s.entries);
    s.base = near.take<T>(s.entries);
    s.parts = near.take<T>(kTeamParts * s.entries);
    s.row_of = near.take<int>(s.entries);
    s.hit = near.take<int>(task.tile);
    s.outside = near.take<int>(task.layers);
    ScratchCutter far(
        team.team_scratch(task.activations_level).get_shmem_aligned(bytes.far - 16, 16));
    s.here = far.take<T>(std::int64_t(task.tile) * task.widest);
    s.next = far.take<T>(std::int64_t(task.tile) * task.widest);
    return s;
  }

  // y from x; `rows` (null: x is (sample, in)) says where the rows of x are. Keeps x and
  // y for stage 2 where kept_x and kept_y are given.
  template <int Order>
  KOKKOS_FUNCTION void forward(const Member& team, const LayerPlan& p, const Scratch& s,
                               int samples, const T* x, const std::int64_t* rows, T* y,
                               T* kept_x, T* kept_y, int* outside) const {
    const bool narrow = p.out <= kTeamParts;
    for (int i0 = 0; i0 < p.in; i0 += task.block) {
      const int block = p.in - i0 < task.block ? p.in - i0 : task.block;
      int count = 0;  // of this thread
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block), [&](int q) {
        const int sample = q / block, i = i0 + q - sample * block;
        const T at = x[(rows ? rows[sample] : sample) * p.in + i];
        T value[Order + 1], slope;
        s.row_of[q] = (q - sample * block) * p.intervals +
                      basis_at<Order, false, T>(at, p, task.knots, i, value, nullptr);
        for (int j = 0; j <= Order; ++j) s.basis[j * s.entries + q] = value[j];
        s.base[q] = base_at<T>(p, at, slope);
        if (kept_x) kept_x[std::int64_t(sample) * p.in + i] = at;
        count += outside_grid(at, p, task.knots, i);
      });
      if (count > 0) Kokkos::atomic_add(outside, count);
      team.team_barrier();
      const T* const table =
          task.table + p.table + std::int64_t(i0) * p.intervals * p.ld_out;
      const T* const bases = task.table + p.base + std::int64_t(i0) * p.ld_out;
      const auto edge = [&](int q, int i, int o) {
        const T* row = table + std::int64_t(s.row_of[q]) * p.ld_out + o;
        T sum = s.base[q] * bases[std::int64_t(i) * p.ld_out + o];
        for (int j = 0; j <= Order; ++j)
          sum += s.basis[j * s.entries + q] * row[std::int64_t(j) * p.ld_out];
        return sum;
      };
      if (narrow) {
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block * p.out),
                             [&](int e) {
                               const int q = e / p.out;
                               s.parts[e] = edge(q, q % block, e - q * p.out);
                             });
        team.team_barrier();
      }
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * p.out), [&](int e) {
        const int sample = e / p.out, o = e - sample * p.out;
        T sum = i0 > 0 ? y[e] : T(0);
        if (narrow)
          for (int i = 0; i < block; ++i)
            sum += s.parts[(sample * block + i) * p.out + o];
        else
          for (int i = 0; i < block; ++i) sum += edge(sample * block + i, i, o);
        y[e] = sum;
        if (kept_y && i0 + block == p.in) kept_y[e] = sum;
      });
      team.team_barrier();
    }
  }

  // dx from dy and x; kept gets a copy of dx.
  template <int Order>
  KOKKOS_FUNCTION void backward(const Member& team, const LayerPlan& p, const Scratch& s,
                                int samples, const T* x, const T* dy, T* dx,
                                T* kept) const {
    const int parts = p.out < kTeamParts ? p.out : kTeamParts;
    for (int i0 = 0; i0 < p.in; i0 += task.block) {
      const int block = p.in - i0 < task.block ? p.in - i0 : task.block;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block), [&](int q) {
        const int sample = q / block, i = i0 + q - sample * block;
        const T at = x[std::int64_t(sample) * p.in + i];
        T value[Order + 1], slope[Order + 1];
        s.row_of[q] = (q - sample * block) * p.intervals +
                      basis_at<Order, true>(at, p, task.knots, i, value, slope);
        for (int j = 0; j <= Order; ++j) s.basis[j * s.entries + q] = slope[j];
        base_at<T>(p, at, s.base[q]);
      });
      team.team_barrier();
      const T* const table =
          task.table + p.table + std::int64_t(i0) * p.intervals * p.ld_out;
      const T* const bases = task.table + p.base + std::int64_t(i0) * p.ld_out;
      Kokkos::parallel_for(
          Kokkos::TeamThreadRange(team, samples * block * parts), [&](int e) {
            const int q = e / parts, sample = q / block, i = q - sample * block;
            const T* row = table + std::int64_t(s.row_of[q]) * p.ld_out;
            const T* base = bases + std::int64_t(i) * p.ld_out;
            T slope[Order + 1], sum = T(0);
            for (int j = 0; j <= Order; ++j) slope[j] = s.basis[j * s.entries + q];
            for (int o = e - q * parts; o < p.out; o += parts) {
              T f = s.base[q] * base[o];
              for (int j = 0; j <= Order; ++j)
                f += slope[j] * row[std::int64_t(j) * p.ld_out + o];
              sum += f * dy[sample * p.out + o];
            }
            s.parts[e] = sum;
          });
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block), [&](int q) {
        const int sample = q / block;
        T sum = s.parts[q * parts];
        for (int k = 1; k < parts; ++k) sum += s.parts[q * parts + k];
        const std::int64_t at = std::int64_t(sample) * p.in + i0 + q - sample * block;
        if (dx) dx[at] = sum;
        if (kept) kept[at] = sum;
      });
    }
    team.team_barrier();
  }

  // Losses of the rows and their derivatives; the sums of the tile.
  KOKKOS_FUNCTION void loss(const Member& team, const Scratch& s, const T* targets,
                            int samples, int out, std::int64_t tile) const {
    const bool known = task.columns > 0;
    if (known)
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples), [&](int k) {
        int hit = 0;
        s.row_loss[k] =
            loss_row(task.loss, s.here + k * out, targets + s.row[k] * task.columns, out,
                     s.next + k * out, hit);
        s.hit[k] = hit;
      });
    team.team_barrier();
    Kokkos::single(Kokkos::PerTeam(team), [&]() {
      double sum = 0;
      int correct = 0;
      for (int k = 0; known && k < samples; ++k) {
        sum += s.row_loss[k];
        correct += s.hit[k];
      }
      task.tile_loss[tile] = sum;
      int* const counts = task.tile_counts + tile * (task.layers + 1);
      counts[0] = correct;
      for (int l = 0; l < task.layers; ++l) counts[l + 1] = s.outside[l];
    });
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    Scratch s = scratch(team);
    const auto swap = [&]() {
      T* const kept = s.here;
      s.here = s.next;
      s.next = kept;
    };
    const int tile = team.league_rank();
    const int leaf = task.first_leaf + tile / task.tiles;
    const std::int64_t begin =
        task.first_row(leaf) + std::int64_t(tile % task.tiles) * task.tile;
    const std::int64_t rest = task.last_row(leaf) - begin;
    const int samples = rest <= 0 ? 0 : rest < task.tile ? int(rest) : task.tile;
    const int out = task.plans[task.layers - 1].out;
    const Rows<T> rows = task.rows();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples),
                         [&](int k) { s.row[k] = rows.row(begin + k); });
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, task.layers),
                         [&](int l) { s.outside[l] = 0; });
    team.team_barrier();

    const bool keep = task.with_gradient;
    for (int l = 0; l < task.layers; ++l) {
      const LayerPlan p = task.plans[l];
      T* const kept_x = keep && l == 0 ? task.x_of(0, begin) : nullptr;
      T* const kept_y = keep && l + 1 < task.layers ? task.x_of(l + 1, begin) : nullptr;
      with_order<K>(p.order, [&](auto order) {
        forward<decltype(order)::value>(
            team, p, s, samples, l == 0 ? rows.inputs : s.here, l == 0 ? s.row : nullptr,
            s.next, kept_x, kept_y, &s.outside[l]);
      });
      swap();
    }
    if (task.prediction)
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * out),
                           [&](int e) { task.prediction[begin * out + e] = s.here[e]; });
    loss(team, s, rows.targets, samples, out, tile);
    if (!keep) return;

    swap();
    T* const top = task.dy_of(task.layers - 1, begin);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * out),
                         [&](int e) { top[e] = s.here[e]; });
    for (int l = task.layers - 1; l > 0 || (l == 0 && task.input_gradient); --l) {
      const LayerPlan p = task.plans[l];
      T* const kept =
          l > 0 ? task.dy_of(l - 1, begin) : task.input_gradient + begin * p.in;
      with_order<K>(p.order, [&](auto order) {
        backward<decltype(order)::value>(team, p, s, samples, task.x_of(l, begin), s.here,
                                         l > 0 ? s.next : nullptr, kept);
      });
      swap();
    }
  }
};

}  // namespace kan
