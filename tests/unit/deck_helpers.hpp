// What the deck tests share: decks in one line, and what came of resolving them.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "io/deck.hpp"

namespace deck_test {

using namespace kan::io;

/// A complete deck: what a test adds to it, it may open again.
inline const std::string kGood =
    "<run>\nepochs = 3\n<data>\nsource = function\nrows = 100\nexpressions = x*y\n"
    "<network>\nwidths = 2, 4, 1\n";

inline DeckSources sources(const std::string& text,
                           std::vector<std::string> overrides = {}) {
  DeckSources result;
  result.deck = DeckText{"input.deck", text};
  result.overrides = std::move(overrides);
  return result;
}

inline Deck resolve(const std::string& text, std::vector<std::string> overrides = {}) {
  return resolve_deck(sources(text, std::move(overrides)));
}

/// The errors, one a line; empty where there are none. Checks the exit code.
inline std::string errors_of(const DeckSources& given) {
  try {
    resolve_deck(given);
  } catch (const DeckErrors& errors) {
    CHECK(errors.code() == kan::Code::usage);
    return errors.what();
  }
  return {};
}
inline std::string errors_of(const std::string& text,
                             std::vector<std::string> overrides = {}) {
  return errors_of(sources(text, std::move(overrides)));
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Number of lines.
inline int count_lines(const std::string& text) {
  int lines = text.empty() ? 0 : 1;
  for (char c : text) lines += c == '\n';
  return lines;
}

}  // namespace deck_test

/// Checks that resolving gives exactly this one error.
#define CHECK_ERROR(text, expected)            \
  do {                                         \
    const std::string found = errors_of(text); \
    CHECK(found == (expected));                \
  } while (false)

/// Checks that the errors hold a line that begins with `place` and holds `part`.
#define CHECK_ERROR_AT(text, place, part)                                           \
  do {                                                                              \
    const std::string found = "\n" + errors_of(text) + "\n";                        \
    INFO(found);                                                                    \
    const auto at = found.find(std::string("\n") + (place));                        \
    REQUIRE(at != std::string::npos);                                               \
    CHECK(contains(found.substr(at + 1, found.find('\n', at + 1) - at - 1), part)); \
  } while (false)
