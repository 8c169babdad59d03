// Small helpers for text that a user wrote: UTF-8 checks, a form that is safe to show in
// a message, and the nearest of a set of names for "did you mean".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kan::io {

/// Bytes of the UTF-8 character at `at`, or 0 where there is none: stray or missing
/// continuation bytes, overlong forms, surrogates, beyond U+10FFFF.
std::size_t utf8_size(std::string_view text, std::size_t at);

/// True for a byte that is a control character other than TAB.
constexpr bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

/// Length of the identifier (letter, then letters, digits, "_") that `text` begins with.
std::size_t ident_size(std::string_view text);

std::string_view trim(std::string_view text);
std::string lower(std::string_view text);

/// The text for a message: control characters and bytes that are not UTF-8 become '?',
/// and what is beyond `limit` bytes becomes "...".
std::string shown(std::string_view text, std::size_t limit = 60);

/// The name nearest to `text` by edit distance (a swap of neighbours counts one; the
/// initials of a name, "lr" for learning_rate, count as near); empty if none is near.
std::string_view nearest(std::string_view text,
                         const std::vector<std::string_view>& names);

/// " (did you mean 'X'?)" or "".
std::string did_you_mean(std::string_view text,
                         const std::vector<std::string_view>& names);

/// "a, b, c".
std::string join(const std::vector<std::string_view>& items,
                 std::string_view separator = ", ");

}  // namespace kan::io
