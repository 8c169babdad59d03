// Counter-based random numbers: a number is a pure function of (seed, stream, index), so
// that a row, an initial value or an order is the same whoever asks for it, in any order,
// on any rank. Philox4x32-10 of Random123 (Salmon et al. 2011): the counter is (index
// low, index high, stream low, stream high) in 32-bit words, the key (seed low, seed
// high).
//
// What is promised: bits, uniforms and integers are the same on every machine and with
// every compiler. A normal number goes through the C library's log, sqrt and cos, so it
// is the same for the same build on the same machine, and elsewhere to the last bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace kan {

/// What numbers are drawn for. Two purposes never share numbers; append, do not reorder.
enum class Purpose : std::uint32_t {
  data_input = 1,    ///< values of the inputs of a row; part = input
  data_noise = 2,    ///< noise on the targets of a row; part = target
  data_split = 3,    ///< which rows are validation and test
  initialize = 4,    ///< initial parameters; part = layer
  order = 5,         ///< order of the rows in an epoch
  grid_samples = 6,  ///< rows that a grid is adapted to
  chunk_order = 7,   ///< order of the chunks of a streamed set in an epoch
  window_order = 8   ///< order of the rows in a window of chunks
};

/// Stream of a purpose; part is a number within it (a column, a layer).
constexpr std::uint64_t random_stream(Purpose purpose, std::uint32_t part = 0) {
  return (std::uint64_t{static_cast<std::uint32_t>(purpose)} << 32) | part;
}

/// The four words of one Philox block.
std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t stream,
                                          std::uint64_t index);
/// Blocks first, first + 1, ... as two 64-bit words each (the low word of a pair first):
/// the words of random_words. A multiple of 16 words.
void random_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                   std::span<std::uint64_t> words);

/// 64 random bits: the first two words of the block, low word first.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Uniform in [0, 1): the upper 53 of the 64 bits, times 2^-53.
double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Standard normal, Box-Muller: sqrt(-2 log u) cos(2 pi v), u in (0, 1] from words 0 and
/// 1, v in [0, 1) from words 2 and 3.
double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Integer in [0, count), count > 0: upper half of bits * count. No value is more likely
/// than another by more than count / 2^64.
std::uint64_t random_integer(std::uint64_t seed, std::uint64_t stream,
                             std::uint64_t index, std::uint64_t count);

}  // namespace kan
