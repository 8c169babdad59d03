// Losses: per row the loss and its derivative with respect to each output, unscaled. The
// mean over `terms` (rows x outputs, or rows for classes) is taken after all sums.
//   mse            sum_o (y_o - t_o)^2             mae   sum_o |y_o - t_o|
//   cross_entropy  log sum_o exp y_o - y_label     targets are one column of labels
// A new loss is one function, one line in loss_row and one in the names.
#pragma once

#include "kan/math.hpp"
#include "kan/options.hpp"

namespace kan {

/// Target columns that a loss wants for `outputs` outputs.
constexpr int target_columns(LossKind loss, int outputs) {
  return loss == LossKind::cross_entropy ? 1 : outputs;
}

/// What the sum of row losses is divided by.
constexpr double loss_terms(LossKind loss, double rows, int outputs) {
  return loss == LossKind::cross_entropy ? rows : rows * outputs;
}

template <class T>
KAN_INLINE double mse_row(const T* y, const T* target, int outputs, T* dy) {
  double sum = 0;
  for (int o = 0; o < outputs; ++o) {
    const T e = y[o] - target[o];
    dy[o] = T(2) * e;
    sum += double(e) * double(e);
  }
  return sum;
}

template <class T>
KAN_INLINE double mae_row(const T* y, const T* target, int outputs, T* dy) {
  double sum = 0;
  for (int o = 0; o < outputs; ++o) {
    const T e = y[o] - target[o];
    dy[o] = e > T(0) ? T(1) : e < T(0) ? T(-1) : T(0);
    sum += double(e > T(0) || e != e ? e : -e);
  }
  return sum;
}

/// Index of the largest output; the first of equals.
template <class T>
KAN_INLINE int predicted_class(const T* y, int outputs) {
  int best = 0;
  for (int o = 1; o < outputs; ++o)
    if (y[o] > y[best]) best = o;
  return best;
}

template <class T>
KAN_INLINE double cross_entropy_row(const T* y, const T* target, int outputs, T* dy) {
  const int label = int(target[0]);
  T top = y[0];
  for (int o = 1; o < outputs; ++o) top = larger(y[o], top);
  T sum = T(0);
  for (int o = 0; o < outputs; ++o) {
    // exponential() clamps, which would hide a not-a-number; the difference keeps it.
    const T shifted = y[o] - top;
    dy[o] = exponential(shifted) + (shifted - shifted);
    sum += dy[o];
  }
  for (int o = 0; o < outputs; ++o) dy[o] = dy[o] / sum;
  dy[label] -= T(1);
  return Kokkos::log(double(sum)) + double(top - y[label]);
}

/// Loss of one row; dy[outputs] gets its derivative; correct is 1 where the largest
/// output is the label (classes only).
template <class T>
KAN_INLINE double loss_row(LossKind loss, const T* y, const T* target, int outputs, T* dy,
                           int& correct) {
  correct = 0;
  if (loss == LossKind::mse) return mse_row(y, target, outputs, dy);
  if (loss == LossKind::mae) return mae_row(y, target, outputs, dy);
  correct = predicted_class(y, outputs) == int(target[0]);
  return cross_entropy_row(y, target, outputs, dy);
}

}  // namespace kan
