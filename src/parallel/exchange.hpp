// Sums over ranks by messages between pairs of ranks, in host memory.
//
//   doubling: in round k = 0, 1, ... rank r swaps all it has with rank r xor 2^k and adds
//             what it gets. log2(P) messages of n values: for short vectors.
//   halving:  in round k rank r and rank r xor 2^k each keep one half of the part they
//             share and send the other; at the end a rank has the sum of one P-th, and
//             the same rounds backwards spread it. 2 log2(P) messages, 2 n (P-1)/P values
//             in all: for long ones (Rabenseifner 2004).
//
// Nearest ranks come first, and each round adds two blocks of 2^k neighbours, so for P a
// power of two every element is summed along the one binary tree over ranks, in both
// forms; as a + b = b + a, all ranks get the same bits (NaN payloads excepted). For other
// P the first ranks are added in pairs before, and get the sum in the end: bit-equal on
// all ranks too, but along another tree.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/communicator.hpp"

namespace kan::parallel {

/// into[i] += from[i], for i below n; by the host's threads where that pays.
template <class T>
void add_to(T* into, const T* from, std::size_t n);

/// Raw words that ride in the messages of a sum and are summed along the same tree.
struct LaneWords {
  double loss = 0;
  std::int64_t count = 0;
  std::uint64_t flags = 0;  ///< united
};

enum class PairwiseForm { automatic, doubling, halving };

template <class T>
class PairwiseSum {
 public:
  /// Elements before and behind the values that sum() writes to where a lane rides along.
  static constexpr std::size_t kMargin = sizeof(LaneWords) / sizeof(T);

  /// form: automatic chooses by the length only, so that all ranks choose the same. The
  /// communicator must outlive the object.
  explicit PairwiseSum(Communicator& communicator,
                       PairwiseForm form = PairwiseForm::automatic);

  /// Collective. Sum over ranks in place; the same length everywhere. Throws code 6 where
  /// a rank does not arrive.
  void sum(std::span<T> values) { run(values, nullptr); }
  /// The same with a lane, for P a power of two. There must be kMargin elements of memory
  /// before and behind the values, which are overwritten.
  void sum(std::span<T> values, LaneWords& lane) { run(values, &lane); }

  /// Whether a vector of n values is halved.
  bool halves(std::size_t n) const;

 private:
  enum class Side { before, behind };
  void run(std::span<T> values, LaneWords* lane);
  void doubling(std::span<T> values, LaneWords* lane);
  void halving(std::span<T> values, LaneWords* lane);
  void swap_and_add(std::span<T> give, Side side, std::span<T> keep, int partner,
                    LaneWords* lane);
  int partner(int bit) const;
  T* scratch(std::size_t n);

  Communicator& communicator_;
  PairwiseForm form_;
  int core_;   ///< ranks of the tree: the largest power of two
  int extra_;  ///< ranks beyond it: of the first 2 extra_ ranks, odd ones stay out
  int place_;  ///< of this rank in the tree
  std::vector<T> scratch_;
  std::vector<std::span<T>> parts_;  ///< kept before each round of halving
};

extern template class PairwiseSum<float>;
extern template class PairwiseSum<double>;
extern template void add_to(float*, const float*, std::size_t);
extern template void add_to(double*, const double*, std::size_t);

}  // namespace kan::parallel
