// Team form of the tile engine, as a GPU runs it: one team a leaf; a tile of samples goes
// through all layers forward and back. Activations of the tile, and basis values of a
// block of inputs of the layer at hand, stay in scratch. Outputs are owned by (sample,
// output), coefficient gradients by the thread that owns the edge (input, output), which
// walks over the samples of the tile: no atomics, and bits that do not depend on the
// team's size. Compiled once per order; K = 0 reads the order of each layer at run time.
#pragma once

#include "kan/engine/engine.hpp"
#include "kan/engine/point.hpp"

namespace kan {

inline constexpr int kTeamInputs = 16;    // inputs of a block
inline constexpr int kTeamThreads = 128;  // of a team on a device, at most

/// Everything a team needs, by value: pointers into Views and sizes.
template <class T>
struct TeamTask {
  const LayerPlan* plans;  ///< device array
  int layers, widest, most_order;
  const T *knots, *table, *inputs, *targets;
  const std::uint32_t* order;  ///< null: the row is the position
  std::int64_t begin, size, table_size;
  int leaves, first_leaf, columns, tile;
  int boundary_numbers;  ///< of scratch: activations of all boundaries, one sample
  LossKind loss;
  bool with_gradient;
  T *leaf_gradient, *prediction, *input_gradient;
  double* leaf_loss;
  std::int64_t *leaf_correct, *leaf_outside;
  int scratch_level;
};

/// Numbers of T of scratch for `tile` samples: activations, two gradients, basis block.
KOKKOS_INLINE_FUNCTION std::int64_t team_numbers(int boundary_numbers, int widest,
                                                 int most_order, int tile) {
  return std::int64_t(tile) *
         (boundary_numbers + 2 * widest + kTeamInputs * (2 * (most_order + 1) + 2));
}

/// Bytes of scratch: row losses (double), numbers of T, intervals and row hits (int).
template <class T>
KOKKOS_INLINE_FUNCTION std::int64_t team_bytes(int boundary_numbers, int widest,
                                               int most_order, int tile) {
  return tile * sizeof(double) +
         team_numbers(boundary_numbers, widest, most_order, tile) * sizeof(T) +
         std::int64_t(tile) * (kTeamInputs + 1) * sizeof(int) + 64;
}

template <class T, int K>
struct TeamTile {
  // The bound lets a thread have 168 registers, and nothing spills: without it HIP
  // compiles for teams of 1024, with 128 registers. Leaves are few, so more teams would
  // not help.
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeamThreads, 3>>;
  using Member = typename Policy::member_type;
  TeamTask<T> task;

  struct Scratch {
    double* row_loss;
    T *x, *dy, *dx, *basis, *slope, *base, *base_slope;
    int *interval, *hit;
  };

  KOKKOS_FUNCTION Scratch scratch(const Member& team) const {
    const int tile = task.tile, block = tile * kTeamInputs;
    char* at = static_cast<char*>(
        team.team_scratch(task.scratch_level)
            .get_shmem_aligned(
                team_bytes<T>(task.boundary_numbers, task.widest, task.most_order, tile) -
                    64,
                16));
    Scratch s;
    s.row_loss = reinterpret_cast<double*>(at);
    s.x = reinterpret_cast<T*>(s.row_loss + tile);
    s.dy = s.x + std::int64_t(tile) * task.boundary_numbers;
    s.dx = s.dy + std::int64_t(tile) * task.widest;
    s.basis = s.dx + std::int64_t(tile) * task.widest;
    s.slope = s.basis + (task.most_order + 1) * block;
    s.base = s.slope + (task.most_order + 1) * block;
    s.base_slope = s.base + block;
    s.interval = reinterpret_cast<int*>(s.base_slope + block);
    s.hit = s.interval + block;
    return s;
  }

  KOKKOS_FUNCTION std::int64_t row_of(std::int64_t position) const {
    return task.order ? std::int64_t(task.order[position]) : position;
  }

  // Basis block: inputs [i0, i0 + block) of all samples of the tile.
  template <int Order, bool WithSlopes>
  KOKKOS_FUNCTION void fill_block(const Member& team, const LayerPlan& p,
                                  const Scratch& s, const T* x, int samples, int i0,
                                  int block) const {
    const int stride = task.tile * kTeamInputs;
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block), [&](int e) {
      const int sample = e / block, i = e - sample * block, q = sample * kTeamInputs + i;
      const T at = x[sample * p.in + i0 + i];
      T value[Order + 1], slope[Order + 1];
      s.interval[q] =
          basis_at<Order, WithSlopes>(at, p, task.knots, i0 + i, value, slope);
      for (int j = 0; j <= Order; ++j) s.basis[j * stride + q] = value[j];
      if constexpr (WithSlopes)
        for (int j = 0; j <= Order; ++j) s.slope[j * stride + q] = slope[j];
      T base_slope;
      s.base[q] = base_at<T>(p, at, base_slope);
      s.base_slope[q] = base_slope;
    });
    team.team_barrier();
  }

  template <int Order>
  KOKKOS_FUNCTION void forward_layer(const Member& team, const LayerPlan& p,
                                     const Scratch& s, const T* x, int samples,
                                     T* y) const {
    const int stride = task.tile * kTeamInputs;
    for (int i0 = 0; i0 < p.in; i0 += kTeamInputs) {
      const int block = p.in - i0 < kTeamInputs ? p.in - i0 : kTeamInputs;
      fill_block<Order, false>(team, p, s, x, samples, i0, block);
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * p.out), [&](int e) {
        const int sample = e / p.out, o = e - sample * p.out;
        T sum = i0 > 0 ? y[e] : T(0);
        for (int i = 0; i < block; ++i) {
          const int q = sample * kTeamInputs + i;
          const std::int64_t input = i0 + i;
          const T* row =
              task.table + p.table + (input * p.intervals + s.interval[q]) * p.ld_out + o;
          for (int j = 0; j <= Order; ++j)
            sum += s.basis[j * stride + q] * row[j * p.ld_out];
          sum += s.base[q] * task.table[p.base + input * p.ld_out + o];
        }
        y[e] = sum;
      });
      team.team_barrier();
    }
  }

  template <int Order>
  KOKKOS_FUNCTION void backward_layer(const Member& team, const LayerPlan& p,
                                      const Scratch& s, const T* x, int samples,
                                      const T* dy, T* gradient, T* dx) const {
    const int stride = task.tile * kTeamInputs;
    for (int i0 = 0; i0 < p.in; i0 += kTeamInputs) {
      const int block = p.in - i0 < kTeamInputs ? p.in - i0 : kTeamInputs;
      fill_block<Order, true>(team, p, s, x, samples, i0, block);
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, block * p.out), [&](int e) {
        const int i = e / p.out, o = e - i * p.out;
        const std::int64_t input = i0 + i;
        T* rows = gradient + p.table + input * p.intervals * p.ld_out + o;
        T base = T(0);
        for (int sample = 0; sample < samples; ++sample) {
          const int q = sample * kTeamInputs + i;
          const T d = dy[sample * p.out + o];
          T* row = rows + std::int64_t(s.interval[q]) * p.ld_out;
          for (int j = 0; j <= Order; ++j)
            row[j * p.ld_out] += s.basis[j * stride + q] * d;
          base += s.base[q] * d;
        }
        gradient[p.base + input * p.ld_out + o] += base;
      });
      if (dx)
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * block), [&](int e) {
          const int sample = e / block, i = e - sample * block;
          const int q = sample * kTeamInputs + i;
          const std::int64_t input = i0 + i;
          const T* row =
              task.table + p.table + (input * p.intervals + s.interval[q]) * p.ld_out;
          const T* base = task.table + p.base + input * p.ld_out;
          T sum = T(0);
          for (int o = 0; o < p.out; ++o) {
            T f = s.base_slope[q] * base[o];
            for (int j = 0; j <= Order; ++j)
              f += s.slope[j * stride + q] * row[j * p.ld_out + o];
            sum += f * dy[sample * p.out + o];
          }
          dx[sample * p.in + i0 + i] = sum;
        });
      team.team_barrier();
    }
  }

  KOKKOS_FUNCTION void forward(const Member& team, const LayerPlan& p, const Scratch& s,
                               const T* x, int n, T* y) const {
    if constexpr (K > 0) {
      forward_layer<K>(team, p, s, x, n, y);
    } else {
      switch (p.order) {
        case 1:
          return forward_layer<1>(team, p, s, x, n, y);
        case 2:
          return forward_layer<2>(team, p, s, x, n, y);
        case 3:
          return forward_layer<3>(team, p, s, x, n, y);
        case 4:
          return forward_layer<4>(team, p, s, x, n, y);
        default:
          return forward_layer<5>(team, p, s, x, n, y);
      }
    }
  }

  KOKKOS_FUNCTION void backward(const Member& team, const LayerPlan& p, const Scratch& s,
                                const T* x, int n, const T* dy, T* g, T* dx) const {
    if constexpr (K > 0) {
      backward_layer<K>(team, p, s, x, n, dy, g, dx);
    } else {
      switch (p.order) {
        case 1:
          return backward_layer<1>(team, p, s, x, n, dy, g, dx);
        case 2:
          return backward_layer<2>(team, p, s, x, n, dy, g, dx);
        case 3:
          return backward_layer<3>(team, p, s, x, n, dy, g, dx);
        case 4:
          return backward_layer<4>(team, p, s, x, n, dy, g, dx);
        default:
          return backward_layer<5>(team, p, s, x, n, dy, g, dx);
      }
    }
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const Scratch s = scratch(team);
    const int leaf = task.first_leaf + team.league_rank();
    T* gradient = task.leaf_gradient + std::int64_t(team.league_rank()) * task.table_size;
    if (task.with_gradient)
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, task.table_size),
                           [&](std::int64_t k) { gradient[k] = T(0); });
    const std::int64_t end = leaf_begin(leaf + 1, task.size, task.leaves);
    const int in = task.plans[0].in, out = task.plans[task.layers - 1].out;
    double loss = 0;
    std::int64_t correct = 0;
    std::int64_t* outside = task.leaf_outside + std::int64_t(leaf) * task.layers;
    Kokkos::single(Kokkos::PerTeam(team), [&]() {
      for (int l = 0; l < task.layers; ++l) outside[l] = 0;
    });
    team.team_barrier();

    for (std::int64_t r = leaf_begin(leaf, task.size, task.leaves); r < end;
         r += task.tile) {
      const int samples = int(end - r < task.tile ? end - r : task.tile);
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * in), [&](int e) {
        s.x[e] = task.inputs[row_of(task.begin + r + e / in) * in + e % in];
      });
      team.team_barrier();
      T* x = s.x;
      for (int l = 0; l < task.layers; ++l) {
        const LayerPlan p = task.plans[l];
        int count = 0;  // of this thread
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * p.in), [&](int e) {
          count += outside_grid(x[e], p, task.knots, e % p.in);
        });
        if (count > 0) Kokkos::atomic_add(&outside[l], std::int64_t(count));
        T* y = x + std::int64_t(task.tile) * p.in;
        forward(team, p, s, x, samples, y);
        x = y;
      }
      if (task.prediction)
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * out),
                             [&](int e) { task.prediction[r * out + e] = x[e]; });
      if (task.columns > 0) {
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples), [&](int k) {
          const std::int64_t row = row_of(task.begin + r + k);
          int hit = 0;
          s.row_loss[k] =
              loss_row(task.loss, x + k * out, task.targets + row * task.columns, out,
                       s.dy + k * out, hit);
          s.hit[k] = hit;
        });
        team.team_barrier();
        for (int k = 0; k < samples; ++k) {
          loss += s.row_loss[k];
          correct += s.hit[k];
        }
      }
      if (task.with_gradient) {
        T *dy = s.dy, *dx = s.dx;
        for (int l = task.layers - 1; l >= 0; --l) {
          const LayerPlan p = task.plans[l];
          x -= std::int64_t(task.tile) * p.in;
          backward(team, p, s, x, samples, dy, gradient,
                   l > 0 || task.input_gradient ? dx : nullptr);
          T* swap = dy;
          dy = dx;
          dx = swap;
        }
        if (task.input_gradient)
          Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * in),
                               [&](int e) { task.input_gradient[r * in + e] = dy[e]; });
      }
      team.team_barrier();
    }
    Kokkos::single(Kokkos::PerTeam(team), [&]() {
      task.leaf_loss[leaf] = loss;
      task.leaf_correct[leaf] = correct;
    });
  }
};

/// Launches the leaves of a task; defined per order in team_order.cpp.
template <class T, int K>
void launch_team_tile(const Exec& exec, const TeamTask<T>& task, int leaves,
                      std::int64_t scratch_bytes);

}  // namespace kan
