// Compiled once per order: KAN_ORDER is given on the command line
// (src/kan/CMakeLists.txt).
#include "kan/engine/host_narrow.hpp"
#include "kan/engine/host_wide.hpp"

namespace kan {

template <class T, int K>
LayerKernels<T> host_kernels_of_order(bool narrow) {
  if (narrow)
    return {host::narrow_weights<T, K>, host::narrow_forward<T, K>,
            host::narrow_backward<T, K>, host::narrow_form<T, K>,
            host::narrow_finish<T, K>};
  return {host::wide_weights<T, K>, host::wide_forward<T, K>, host::wide_backward<T, K>,
          host::wide_form<T>, host::wide_finish<T>};
}

template LayerKernels<float> host_kernels_of_order<float, KAN_ORDER>(bool);
template LayerKernels<double> host_kernels_of_order<double, KAN_ORDER>(bool);

}  // namespace kan
