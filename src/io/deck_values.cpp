// Conversions of values. Numbers go through std::from_chars and std::to_chars, which do
// not depend on the locale and give the shortest text that reads back as the same bits.
#include "io/deck_values.hpp"

#include <charconv>
#include <cmath>
#include <limits>

#include "io/text.hpp"

namespace kan::io {

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::string_view kTrueWords = "true yes on 1", kFalseWords = "false no off 0";

/// Digits only; overflow is told apart.
std::int64_t parse_digits(std::string_view digits, bool negative, const char* expected) {
  if (digits.empty()) throw BadValue(expected);
  for (char c : digits)
    if (!is_digit(c)) throw BadValue(expected);
  const std::string token = (negative ? "-" : "") + std::string(digits);
  std::int64_t value = 0;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), value);
  if (result.ec != std::errc())
    throw BadValue("overflow: integers go from " +
                   std::to_string(std::numeric_limits<std::int64_t>::min()) + " to " +
                   std::to_string(kLargest));
  return value;
}

/// " (did you mean 1000000?)" for 1e6, 5.0 and the like.
std::string integer_hint(std::string_view text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!whole || std::nearbyint(value) != value || std::abs(value) > 9e15) return {};
  return " (did you mean " + std::to_string(static_cast<std::int64_t>(value)) + "?)";
}

void check_range(const Parameter& parameter, double value) {
  const Range& range = parameter.range;
  const bool good = (range.low_open ? value > range.low : value >= range.low) &&
                    (range.high_open ? value < range.high : value <= range.high);
  if (!good) throw BadValue("out of range: allowed is " + range_text(range));
}

std::int64_t parse_choice(const Parameter& parameter, std::string_view text) {
  const int index = word_index(parameter.choices, text);
  if (index >= 0) return index;
  const auto accepted = words(parameter.choices);
  throw BadValue("accepted values are " + join(accepted) + did_you_mean(text, accepted));
}

FractionOrFile parse_fraction_or_file(const Item& item) {
  double fraction = 0;
  const std::string& text = item.text;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), fraction);
  const bool number = result.ptr == text.data() + text.size() && !text.empty();
  if (item.quoted || !number) {
    if (text.empty()) throw BadValue("a fraction or the name of a file is expected");
    return {0, text};
  }
  if (!(fraction > 0 && fraction < 1))
    throw BadValue(
        "a fraction is above 0 and below 1; a file named like a number needs "
        "quotes");
  return {fraction, {}};
}

/// One entry of any type but fraction_or_file.
Value parse_entry(const Parameter& parameter, const Item& item) {
  switch (parameter.type) {
    case Type::boolean:
      return parse_boolean(item.text);
    case Type::real:
    case Type::reals: {
      const double value = parse_real(item.text);
      check_range(parameter, value);
      return value;
    }
    case Type::text:
    case Type::texts:
      return item.text;
    case Type::choice:
    case Type::choices:
      return parse_choice(parameter, item.text);
    case Type::fraction_or_file:
      return parse_fraction_or_file(item);
    default:
      break;
  }
  const std::int64_t value = parameter.type == Type::duration ? parse_duration(item.text)
                             : parameter.type == Type::bytes  ? parse_bytes(item.text)
                                                              : parse_integer(item.text);
  check_range(parameter, static_cast<double>(value));
  return value;
}

template <class T>
std::vector<T> parse_list(const Parameter& parameter, const std::vector<Item>& items) {
  std::vector<T> list;
  for (const Item& item : items) {
    try {
      list.push_back(std::get<T>(parse_entry(parameter, item)));
    } catch (const BadValue& bad) {
      if (items.size() == 1 && item.text.find_first_of(" \t") != std::string::npos)
        throw BadValue(std::string(bad.what()) + "; entries are separated by commas");
      if (items.size() == 1) throw;
      throw BadValue("'" + shown(item.text) + "': " + bad.what());
    }
  }
  return list;
}

}  // namespace

std::int64_t parse_integer(std::string_view text) {
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::string expected = "an integer is expected" + integer_hint(text);
  return parse_digits(text.substr(sign ? 1 : 0), sign && text[0] == '-',
                      expected.c_str());
}

double parse_real(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ptr == end && result.ec == std::errc::result_out_of_range)
    throw BadValue("out of the range of double precision");
  if (text.empty() || result.ptr != end || result.ec != std::errc())
    throw BadValue(text.substr(0, 1) == "+" ? "a real number is expected, without '+'"
                                            : "a real number is expected");
  if (!std::isfinite(value)) throw BadValue("a finite number is expected");
  return value;
}

bool parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  if (word_index(kTrueWords, word) >= 0) return true;
  if (word_index(kFalseWords, word) >= 0) return false;
  throw BadValue("accepted values are true, false, yes, no, on, off, 1, 0");
}

std::int64_t parse_duration(std::string_view text) {
  constexpr const char* kExpected = "a duration is expected: [[hours:]minutes:]seconds";
  // 12 digits: over 30,000 years, and no overflow below.
  constexpr std::size_t kMostDigits = 12;
  std::int64_t seconds = 0;
  for (int parts = 1;; ++parts) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view part = text.substr(0, colon);
    if (part.size() > kMostDigits || parts > 3) throw BadValue(kExpected);
    const std::int64_t number = parse_digits(part, false, kExpected);
    if (parts > 1 && (number > 59 || part.size() > 2))
      throw BadValue(
          "a duration is expected: minutes and seconds after a ':' are 00 to 59");
    seconds = 60 * seconds + number;
    if (colon == text.size()) return seconds;
    text.remove_prefix(colon + 1);
  }
}

std::int64_t parse_bytes(std::string_view text) {
  constexpr const char* kExpected =
      "a size is expected: an integer and B, KiB, MiB or GiB";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const int suffix = word_index("B KiB MiB GiB", trim(text.substr(digits)));
  const int shift = digits == text.size() ? 0 : 10 * suffix;
  if (shift < 0) throw BadValue(kExpected);
  const std::int64_t number = parse_digits(text.substr(0, digits), false, kExpected);
  if (number > (kLargest >> shift)) throw BadValue("overflow: too many bytes");
  return number << shift;
}

std::optional<Value> parse_value(const Parameter& parameter,
                                 const std::vector<Item>& items) {
  for (const Item& item : items)
    if (item.text.size() > kMaxValueBytes)
      throw BadValue("longer than " + std::to_string(kMaxValueBytes) + " bytes");
  if (items.size() == 1 && !items[0].quoted && !parameter.off.empty() &&
      items[0].text == parameter.off)
    return std::nullopt;
  switch (parameter.type) {
    case Type::integers:
    case Type::choices:
      return parse_list<std::int64_t>(parameter, items);
    case Type::reals:
      return parse_list<double>(parameter, items);
    case Type::texts:
      return parse_list<std::string>(parameter, items);
    default:
      break;
  }
  if (items.size() != 1)
    throw BadValue(
        "one value is expected, not a list; text that holds a comma needs quotes");
  return parse_entry(parameter, items[0]);
}

std::optional<Value> parse_override(const Parameter& parameter, std::string_view raw) {
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t size = utf8_size(raw, at);
    if (size == 0 || (is_control(raw[at]) && raw[at] != '\n'))
      throw BadValue(
          "control characters and bytes that are not UTF-8 cannot be in a value");
    at += size;
  }
  std::vector<Item> items;
  if (is_list(parameter.type)) {
    const std::string problem = split_list(raw, items);
    if (!problem.empty()) throw BadValue(problem);
  } else {
    items.push_back({std::string(raw), false});
  }
  return parse_value(parameter, items);
}

std::string real_text(double value) {
  char text[32];
  const auto result = std::to_chars(text, text + sizeof text, value);
  return std::string(text, result.ptr);
}

std::string clock_text(std::int64_t seconds) {
  const auto two = [](std::int64_t n) { return (n < 10 ? "0" : "") + std::to_string(n); };
  return two(seconds / 3600) + ":" + two(seconds / 60 % 60) + ":" + two(seconds % 60);
}

std::string size_text(std::int64_t bytes) {
  constexpr const char* kSuffix[] = {"", " KiB", " MiB", " GiB"};
  int level = 0;
  while (level < 3 && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++level;
  }
  return std::to_string(bytes) + kSuffix[level];
}

namespace {

std::string integer_text(const Parameter& parameter, std::int64_t value) {
  if (parameter.type == Type::duration) return clock_text(value);
  if (parameter.type == Type::bytes) return size_text(value);
  if (parameter.type == Type::choice || parameter.type == Type::choices)
    return std::string(words(parameter.choices).at(static_cast<std::size_t>(value)));
  return std::to_string(value);
}

/// Quoted where the bare text would read as something else: the off word or a number.
std::string text_item(const Parameter& parameter, const std::string& text) {
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool numeric =
      parameter.type == Type::fraction_or_file && result.ptr == text.data() + text.size();
  if (numeric || (!text.empty() && text == parameter.off)) return '"' + text + '"';
  return written(text);
}

}  // namespace

std::vector<std::string> value_items(const Parameter& parameter,
                                     const std::optional<Value>& value) {
  if (!value) return {std::string(parameter.off)};
  std::vector<std::string> items;
  if (const auto* flag = std::get_if<bool>(&*value)) items = {*flag ? "true" : "false"};
  if (const auto* number = std::get_if<std::int64_t>(&*value))
    items = {integer_text(parameter, *number)};
  if (const auto* real = std::get_if<double>(&*value)) items = {real_text(*real)};
  if (const auto* text = std::get_if<std::string>(&*value))
    items = {text_item(parameter, *text)};
  if (const auto* part = std::get_if<FractionOrFile>(&*value))
    items = {part->file.empty() ? real_text(part->fraction)
                                : text_item(parameter, part->file)};
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&*value))
    for (std::int64_t number : *list) items.push_back(integer_text(parameter, number));
  if (const auto* list = std::get_if<std::vector<double>>(&*value))
    for (double real : *list) items.push_back(real_text(real));
  if (const auto* list = std::get_if<std::vector<std::string>>(&*value))
    for (const std::string& text : *list) items.push_back(text_item(parameter, text));
  return items;
}

std::string value_text(const Parameter& parameter, const std::optional<Value>& value) {
  std::string text;
  for (const std::string& item : value_items(parameter, value))
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

}  // namespace kan::io
