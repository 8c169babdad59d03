// The limits of the machine, measured by loops that do nothing else: what kan_bench
// divides by.
#pragma once

#include <cstdint>

namespace kan::bench {

/// Multiply-add with one operand from L1, GFLOP/s of one thread (2 a multiply-add), by
/// vectors of 256 bits, float: the loop that the bars refer to. 20 ms.
double fma_rate_bars();
/// The same with the widest vectors of this build, in float or double.
template <class T>
double fma_rate();
/// Triad a = b + s c over arrays of `bytes` in all, GB/s of one thread: L2, L3 or memory,
/// by the size. The store counts once (no write-allocate).
double triad_rate(std::int64_t bytes);

}  // namespace kan::bench
