// Stage 2 of the team form: coefficient gradients of a leaf from x and dy of its rows. A
// team owns a block of edges (inputs x outputs) of a layer in a leaf, a thread single
// edges: it walks over the rows in order and adds to the G+k+1 sums of its edge,
//   de_r = sum_rows B_r(x_i) dy_o,   da = sum_rows b(x_i) dy_o,
// kept in scratch and stored once. So there are no atomics, and bits depend on the rows
// of the leaf alone. Where the sums of some layer do not fit, all are kept in the
// leaf's table. A
// block of rows at a time has its basis values and dy in scratch; the k+1 values of a
// point are shifted to begin at a coefficient that exists with k more behind it, so that
// nothing branches per edge.
#pragma once

#include "kan/engine/team_task.hpp"

namespace kan {

/// Numbers of scratch for a block of a layer: sums, and per sample basis and dy.
KOKKOS_INLINE_FUNCTION std::int64_t sum_numbers(const LayerPlan& p, const TeamCut& cut,
                                                bool in_table) {
  return in_table ? 0 : std::int64_t(p.coefficients + 1) * cut.inputs * cut.outputs;
}
template <class T>
std::int64_t gradient_bytes(const LayerPlan& p, const TeamCut& cut, bool in_table) {
  return sum_numbers(p, cut, in_table) * sizeof(T) +
         cut.samples * (cut.inputs * ((p.order + 2) * sizeof(T) + sizeof(int)) +
                        cut.outputs * sizeof(T)) +
         32;
}

template <class T, int K, bool InTable>
struct TeamGradient {
  using Policy =
      Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kTeamThreads, kTeamsHeld<T>>>;
  using Member = typename Policy::member_type;
  TeamTask<T> task;
  std::int64_t bytes;

  template <int Order>
  KOKKOS_FUNCTION void block(const Member& team, const LayerPlan& p, const TeamCut& cut,
                             int layer, int leaf, int number) const {
    const int i0 = number / cut.output_blocks * cut.inputs;
    const int o0 = number % cut.output_blocks * cut.outputs;
    const int inputs = p.in - i0 < cut.inputs ? p.in - i0 : cut.inputs;
    const int outputs = p.out - o0 < cut.outputs ? p.out - o0 : cut.outputs;
    const int edges = inputs * outputs, entries = cut.samples * cut.inputs;
    const bool first = task.part_begin == 0;
    T* const gradient =
        task.leaf_gradient + std::int64_t(leaf - task.first_gradient) * task.table_size;
    T* const rows =
        gradient + p.table + (std::int64_t(i0) * p.intervals + p.order) * p.ld_out + o0;
    T* const bases = gradient + p.base + std::int64_t(i0) * p.ld_out + o0;
    const std::int64_t input_stride = std::int64_t(p.intervals) * p.ld_out;

    ScratchCutter near(team.team_scratch(0).get_shmem_aligned(bytes - 16, 16));
    T* const sums = near.take<T>(sum_numbers(p, cut, InTable));
    T* const basis = near.take<T>(entries * (Order + 1));
    T* const base = near.take<T>(entries);
    T* const dy = near.take<T>(cut.samples * cut.outputs);
    int* const low = near.take<int>(entries);

    // An edge is its thread's from here to the end, as all loops over edges are alike.
    if constexpr (InTable) {
      if (first)
        Kokkos::parallel_for(Kokkos::TeamThreadRange(team, edges), [&](int e) {
          const int i = e / outputs, o = e - i * outputs;
          for (int r = 0; r < p.coefficients; ++r)
            rows[i * input_stride + std::int64_t(r) * p.ld_out + o] = T(0);
          bases[std::int64_t(i) * p.ld_out + o] = T(0);
        });
    } else {
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, edges), [&](int e) {
        const int i = e / outputs, o = e - i * outputs;
        const T* const kept = rows + i * input_stride + o;
        for (int r = 0; r < p.coefficients; ++r)
          sums[r * edges + e] = first ? T(0) : kept[std::int64_t(r) * p.ld_out];
        sums[p.coefficients * edges + e] =
            first ? T(0) : bases[std::int64_t(i) * p.ld_out + o];
      });
    }

    const std::int64_t end = task.last_row(leaf);
    for (std::int64_t row = task.first_row(leaf); row < end; row += cut.samples) {
      const int samples = end - row < cut.samples ? int(end - row) : cut.samples;
      const T* const x = task.x_of(layer, row) + i0;
      const T* const from = task.dy_of(layer, row) + o0;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * inputs), [&](int q) {
        const int sample = q / inputs, i = q - sample * inputs;
        const T at = x[std::int64_t(sample) * p.in + i];
        T value[Order + 1], slope;
        const int lowest =
            basis_at<Order, false, T>(at, p, task.knots, i0 + i, value, nullptr) - Order;
        const int shift = (lowest < 0        ? 0
                           : lowest < p.grid ? lowest
                                             : p.grid - 1) -
                          lowest;
        if (shift != 0)
          for (int j = 0; j <= Order; ++j) basis[j * entries + q] = T(0);
        for (int j = 0; j <= Order; ++j)
          if (j >= shift && j - shift <= Order)
            basis[(j - shift) * entries + q] = value[j];
        low[q] = (lowest + shift) * (InTable ? p.ld_out : edges);
        base[q] = base_at<T>(p, at, slope);
      });
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, samples * outputs), [&](int q) {
        const int sample = q / outputs;
        dy[q] = from[std::int64_t(sample) * p.out + q - sample * outputs];
      });
      team.team_barrier();
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, edges), [&](int e) {
        const int i = e / outputs, o = e - i * outputs;
        T* const at = InTable ? rows + i * input_stride + o : sums + e;
        T* const base_at = InTable ? bases + std::int64_t(i) * p.ld_out + o
                                   : sums + p.coefficients * edges + e;
        const int stride = InTable ? p.ld_out : edges;
        T sum = *base_at;
        for (int sample = 0; sample < samples; ++sample) {
          const int q = sample * inputs + i;
          const T d = dy[sample * outputs + o];
          T* const to = at + low[q];
          for (int j = 0; j <= Order; ++j) to[j * stride] += basis[j * entries + q] * d;
          sum += base[q] * d;
        }
        *base_at = sum;
      });
      team.team_barrier();
    }

    if constexpr (!InTable)
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, edges), [&](int e) {
        const int i = e / outputs, o = e - i * outputs;
        T* const kept = rows + i * input_stride + o;
        for (int r = 0; r < p.coefficients; ++r)
          kept[std::int64_t(r) * p.ld_out] = sums[r * edges + e];
        bases[std::int64_t(i) * p.ld_out + o] = sums[p.coefficients * edges + e];
      });
  }

  KOKKOS_FUNCTION void operator()(const Member& team) const {
    const int leaf = task.first_leaf + team.league_rank() / task.teams;
    const int mine = team.league_rank() % task.teams;
    int layer = 0;
    while (layer + 1 < task.layers && mine >= task.cuts[layer + 1].first_team) ++layer;
    const LayerPlan p = task.plans[layer];
    const TeamCut cut = task.cuts[layer];
    with_order<K>(p.order, [&](auto order) {
      block<decltype(order)::value>(team, p, cut, layer, leaf, mine - cut.first_team);
    });
    if (mine == 0)
      Kokkos::single(Kokkos::PerTeam(team), [&]() { add_tiles(task, leaf); });
  }
};

/// Sums of leaves where there are no gradients.
template <class T>
struct TeamSums {
  TeamTask<T> task;
  KOKKOS_FUNCTION void operator()(int leaf) const {
    add_tiles(task, task.first_leaf + leaf);
  }
};

}  // namespace kan
