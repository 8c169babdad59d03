// Values of parameters: text to typed value and back. Whole tokens only, overflow is
// named, and the range of the declaration is checked.
//
//   integer   optional sign and digits       real      as std::from_chars, finite
//   boolean   true/false/yes/no/on/off/1/0   duration  [[hh:]mm:]ss
//   bytes     digits, optional B, KiB, MiB, GiB
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "io/deck_items.hpp"
#include "io/keys.hpp"

namespace kan::io {

/// A choice is held as its position in the words of the declaration.
using Value = std::variant<bool, std::int64_t, double, std::string, FractionOrFile,
                           std::vector<std::int64_t>, std::vector<double>,
                           std::vector<std::string>>;

/// True for the types that a Value can hold.
template <class T, class V = Value>
inline constexpr bool kIsValue = false;
template <class T, class... U>
inline constexpr bool kIsValue<T, std::variant<U...>> = (std::is_same_v<T, U> || ...);

/// Why a text is not a value: "an integer is expected (did you mean 1000000?)".
struct BadValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Each throws BadValue.
std::int64_t parse_integer(std::string_view text);
double parse_real(std::string_view text);
bool parse_boolean(std::string_view text);
std::int64_t parse_duration(std::string_view text);  ///< seconds
std::int64_t parse_bytes(std::string_view text);

/// Value of a parameter from the items of a deck. Empty where the `off` word is given.
/// Throws BadValue.
std::optional<Value> parse_value(const Parameter& parameter,
                                 const std::vector<Item>& items);

/// The same from the text after the "=" of an override: split at commas for lists only.
std::optional<Value> parse_override(const Parameter& parameter, std::string_view raw);

/// Lists may hold several values.
constexpr bool is_list(Type type) {
  return type == Type::integers || type == Type::reals || type == Type::texts ||
         type == Type::choices;
}

/// "1:30:00"; "256 MiB"; the shortest text that reads back as the same number.
std::string clock_text(std::int64_t seconds);
std::string size_text(std::int64_t bytes);
std::string real_text(double value);

/// The items of a value, as a deck holds them; no value: the `off` word.
std::vector<std::string> value_items(const Parameter& parameter,
                                     const std::optional<Value>& value);
/// The same joined with ", ".
std::string value_text(const Parameter& parameter, const std::optional<Value>& value);

}  // namespace kan::io
