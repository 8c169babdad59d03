// Counter-based random numbers: published Philox vectors, the documented maps from words
// to numbers, moments, and independence of streams.
#include "kan/random.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "kan/error.hpp"

using namespace kan;
using Words = std::array<std::uint32_t, 4>;

TEST_CASE("many blocks at a time are the blocks one by one") {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{0xfffffff8}}) {
    std::vector<std::uint64_t> words(2 * 40);
    kan::random_blocks(0x123456789abcdef0, 0xfedcba9876543210, first, words);
    for (std::uint64_t k = 0; k < 40; ++k) {
      const auto one =
          kan::random_words(0x123456789abcdef0, 0xfedcba9876543210, first + k);
      CHECK(words[2 * k] == (one[0] | std::uint64_t{one[1]} << 32));
      CHECK(words[2 * k + 1] == (one[2] | std::uint64_t{one[3]} << 32));
    }
  }
}

TEST_CASE("Philox4x32-10 known answers") {
  // Random123's kat_vectors: counter words 0..3 are (index, stream), the key is the seed.
  CHECK(random_words(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint64_t ones = ~std::uint64_t{0};
  CHECK(random_words(ones, ones, ones) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(random_words(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("numbers are the documented functions of the words") {
  // From the first known answer: bits = e169c58d 6627e8d5.
  CHECK(random_bits(0, 0, 0) == 0xe169c58d6627e8d5);
  CHECK(random_uniform(0, 0, 0) == std::ldexp(0xe169c58d6627e8d5 >> 11, -53));
  CHECK(random_integer(0, 0, 0, 1000) == 880);  // 0.88052... * 1000
  CHECK(random_integer(0, 0, 0, 1) == 0);
  CHECK(random_integer(0, 0, 0, std::uint64_t{1} << 63) == 0xe169c58d6627e8d5 >> 1);
  CHECK(random_integer(0, 0, 0, std::uint64_t{1} << 32) == 0xe169c58d);
  const double u = 1.0 - std::ldexp(0xe169c58d6627e8d5 >> 11, -53);
  const double v = std::ldexp(0x9b00dbd8bc57ac4c >> 11, -53);
  const double normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  CHECK(std::abs(random_normal(0, 0, 0) - normal) < 1e-15);
  CHECK_THROWS_AS(random_integer(0, 0, 0, 0), Error);
}

TEST_CASE("integers match 128-bit arithmetic") {
#ifdef __SIZEOF_INT128__
  __extension__ using Wide = unsigned __int128;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const std::uint64_t count = random_bits(5, 1, n) >> (n % 64);
    if (count == 0) continue;
    const auto wide = static_cast<Wide>(random_bits(7, 2, n)) * count;
    REQUIRE(random_integer(7, 2, n, count) == static_cast<std::uint64_t>(wide >> 64));
  }
#endif
}

TEST_CASE("moments of uniform and normal numbers") {
  const int count = 200000;
  double mean = 0, square = 0, normal_mean = 0, normal_square = 0, fourth = 0, pair = 0;
  double previous = 0;
  for (int n = 0; n < count; ++n) {
    const double u = random_uniform(42, random_stream(Purpose::data_input), n);
    REQUIRE((u >= 0 && u < 1));
    mean += u;
    square += u * u;
    const double g = random_normal(42, random_stream(Purpose::data_noise), n);
    normal_mean += g;
    normal_square += g * g;
    fourth += g * g * g * g;
    pair += g * previous;
    previous = g;
  }
  // Bounds are five standard errors of each estimate.
  const double error = 5 / std::sqrt(double(count));
  CHECK(std::abs(mean / count - 0.5) < error * std::sqrt(1.0 / 12));
  CHECK(std::abs(square / count - 1.0 / 3) < error * std::sqrt(4.0 / 45));
  CHECK(std::abs(normal_mean / count) < error);
  CHECK(std::abs(normal_square / count - 1) < error * std::sqrt(2.0));
  CHECK(std::abs(fourth / count - 3) < error * std::sqrt(96.0));
  CHECK(std::abs(pair / count) < error);
}

TEST_CASE("seed, purpose, part and index each change the number") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0ull, 1ull, 1ull << 40}) {
    for (Purpose purpose : {Purpose::data_input, Purpose::order}) {
      for (std::uint32_t part : {0u, 1u, 0xffffffffu}) {
        for (std::uint64_t index : {0ull, 1ull, 1ull << 33}) {
          seen.insert(random_bits(seed, random_stream(purpose, part), index));
        }
      }
    }
  }
  CHECK(seen.size() == 3 * 2 * 3 * 3);
}
