// Table of a wide layer from the flat parameters, and the flat gradient from the summed
// table gradient: one input, outputs [first, last). Runs on devices (one output a thread)
// and on the host (all outputs of an input, vectorised).
//   table:  e_rj = s_j c_rj        gradient: dc_rj = s_j de_rj,  ds_j = sum_r c_rj de_rj
#pragma once

#include "kan/engine/plan.hpp"
#include "kan/math.hpp"

namespace kan {

template <class T>
KAN_INLINE void form_wide(const LayerPlan& p, const T* parameters, int input, int first,
                          int last, T* table) {
  const T* flat = parameters + p.parameters + std::int64_t(input) * p.rows * p.out;
  T* rows = table + p.table + (std::int64_t(input) * p.intervals + p.order) * p.ld_out;
  const T* scale = flat + std::int64_t(p.rows - 1) * p.out;
  for (int r = 0; r < p.coefficients; ++r) {
    T* to = rows + std::int64_t(r) * p.ld_out;
    const T* from = flat + std::int64_t(r) * p.out;
    if (p.has_scale)
      for (int o = first; o < last; ++o) to[o] = scale[o] * from[o];
    else
      for (int o = first; o < last; ++o) to[o] = from[o];
  }
  if (p.has_base) {
    T* base = table + p.base + std::int64_t(input) * p.ld_out;
    const T* from = flat + std::int64_t(p.coefficients) * p.out;
    for (int o = first; o < last; ++o) base[o] = from[o];
  }
}

template <class T>
KAN_INLINE void finish_wide(const LayerPlan& p, const T* parameters, const T* sums,
                            int input, int first, int last, T* gradient) {
  const std::int64_t at = p.parameters + std::int64_t(input) * p.rows * p.out;
  const T* flat = parameters + at;
  T* g = gradient + at;
  const T* rows =
      sums + p.table + (std::int64_t(input) * p.intervals + p.order) * p.ld_out;
  if (p.has_scale) {
    const T* scale = flat + std::int64_t(p.rows - 1) * p.out;
    T* g_scale = g + std::int64_t(p.rows - 1) * p.out;
    for (int o = first; o < last; ++o) g_scale[o] = T(0);
    for (int r = 0; r < p.coefficients; ++r) {
      const T* e = rows + std::int64_t(r) * p.ld_out;
      const T* c = flat + std::int64_t(r) * p.out;
      T* to = g + std::int64_t(r) * p.out;
      for (int o = first; o < last; ++o) {
        g_scale[o] += c[o] * e[o];
        to[o] = scale[o] * e[o];
      }
    }
  } else {
    for (int r = 0; r < p.coefficients; ++r)
      for (int o = first; o < last; ++o)
        g[std::int64_t(r) * p.out + o] = rows[std::int64_t(r) * p.ld_out + o];
  }
  if (p.has_base) {
    const T* base = sums + p.base + std::int64_t(input) * p.ld_out;
    for (int o = first; o < last; ++o)
      g[std::int64_t(p.coefficients) * p.out + o] = base[o];
  }
}

}  // namespace kan
