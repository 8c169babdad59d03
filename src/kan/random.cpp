// Philox4x32-10 through Random123, and the maps from its words to numbers that
// random.hpp describes.
#include "kan/random.hpp"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

#include "kan/error.hpp"

namespace kan {

namespace {

std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return (std::uint64_t{high} << 32) | low;
}

double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t stream,
                                          std::uint64_t index) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const auto high = [](std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> 32);
  };
  const r123::Philox4x32::ctr_type counter{
      {low(index), high(index), low(stream), high(stream)}};
  const r123::Philox4x32::key_type key{{low(seed), high(seed)}};
  const auto block = r123::Philox4x32()(counter, key);
  return {block[0], block[1], block[2], block[3]};
}

// The rounds of Philox4x32-10 (Salmon et al. 2011) for many counters side by side, in
// loops that compilers vectorise (words of 32 bits in lanes of 64, for the products); the
// words are those of Random123, five times as fast.
void random_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                   std::span<std::uint64_t> words) {
  constexpr std::size_t kLanes = 8;
  constexpr std::uint64_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr std::uint64_t kLow = 0xffffffff;
  KAN_REQUIRE(words.size() % (2 * kLanes) == 0, "random_blocks: 16 words at a time");
  for (std::size_t done = 0; done < words.size() / 2; done += kLanes) {
    std::uint64_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (std::size_t k = 0; k < kLanes; ++k) {
      const std::uint64_t index = first + done + k;
      c0[k] = index & kLow;
      c1[k] = index >> 32;
      c2[k] = stream & kLow;
      c3[k] = stream >> 32;
    }
    auto key0 = static_cast<std::uint32_t>(seed);
    auto key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, key0 += kWeyl0, key1 += kWeyl1)
      for (std::size_t k = 0; k < kLanes; ++k) {
        const std::uint64_t p0 = kMultiply0 * static_cast<std::uint32_t>(c0[k]);
        const std::uint64_t p1 = kMultiply1 * static_cast<std::uint32_t>(c2[k]);
        c0[k] = (p1 >> 32) ^ c1[k] ^ key0;
        c1[k] = p1 & kLow;
        c2[k] = (p0 >> 32) ^ c3[k] ^ key1;
        c3[k] = p0 & kLow;
      }
    for (std::size_t k = 0; k < kLanes; ++k) {
      words[2 * (done + k)] = c0[k] | c1[k] << 32;
      words[2 * (done + k) + 1] = c2[k] | c3[k] << 32;
    }
  }
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = random_words(seed, stream, index);
  return join(words[0], words[1]);
}

double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return unit(random_bits(seed, stream, index));
}

double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto words = random_words(seed, stream, index);
  const double radius = 1.0 - unit(join(words[0], words[1]));
  const double angle = unit(join(words[2], words[3]));
  return std::sqrt(-2.0 * std::log(radius)) * std::cos(2.0 * std::numbers::pi * angle);
}

std::uint64_t random_integer(std::uint64_t seed, std::uint64_t stream,
                             std::uint64_t index, std::uint64_t count) {
  KAN_REQUIRE(count > 0, "random_integer needs a positive count");
  // Upper half of the 128-bit product, from 32-bit halves so that any compiler will do.
  const auto words = random_words(seed, stream, index);
  const std::uint64_t low = std::uint64_t{words[0]} * (count & 0xffffffffu);
  const std::uint64_t a = std::uint64_t{words[1]} * (count & 0xffffffffu) + (low >> 32);
  const std::uint64_t b = std::uint64_t{words[0]} * (count >> 32) + (a & 0xffffffffu);
  return std::uint64_t{words[1]} * (count >> 32) + (a >> 32) + (b >> 32);
}

}  // namespace kan
