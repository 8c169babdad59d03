// Look-ups in the declared table, and the hints for names that are not in it.
#include "io/parameters.hpp"

#include <charconv>
#include <iterator>

#include "io/parameter_table.hpp"
#include "io/text.hpp"

namespace kan::io {

namespace {

/// 512, 0.5, 10^15.
std::string number_text(double value) {
  int power = 0;
  double rest = value;
  for (;
       rest >= 10 && rest / 10 == static_cast<double>(static_cast<long long>(rest / 10));
       ++power)
    rest /= 10;
  if (rest == 1 && power >= 6) return "10^" + std::to_string(power);
  char text[32];
  const auto form = value == static_cast<double>(static_cast<long long>(value))
                        ? std::chars_format::fixed
                        : std::chars_format::general;
  return std::string(text, std::to_chars(text, text + sizeof text, value, form).ptr);
}

/// "output12" to family and number; number 0 where the rest is no number from 1 on.
std::string_view split_number(std::string_view text, int& number) {
  std::size_t digits = text.size();
  while (digits > 0 && is_digit(text[digits - 1])) --digits;
  number = 0;
  const std::string_view tail = text.substr(digits);
  if (!tail.empty() && tail[0] != '0' && tail.size() <= 4)
    std::from_chars(tail.data(), tail.data() + tail.size(), number);
  return text.substr(0, digits);
}

std::vector<std::string_view> keys_of(std::string_view block) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : kParameters)
    if (parameter.block == block) names.push_back(parameter.name);
  return names;
}

}  // namespace

BlockName find_block(std::string_view text) {
  int number = 0;
  const std::string_view family = split_number(text, number);
  for (int i = 0; i < static_cast<int>(std::size(kBlocks)); ++i) {
    if (!kBlocks[i].numbered && kBlocks[i].name == text) return {i, 0};
    if (kBlocks[i].numbered && kBlocks[i].name == family && number >= 1)
      return {i, number};
  }
  return {};
}

int find_parameter(std::string_view block, std::string_view name) {
  for (int i = 0; i < static_cast<int>(std::size(kParameters)); ++i)
    if (kParameters[i].block == block && kParameters[i].name == name) return i;
  return -1;
}

std::string block_text(std::string_view block, int number) {
  return std::string(block) + (number > 0 ? std::to_string(number) : "");
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> result;
  for (list = trim(list); !list.empty(); list = trim(list)) {
    const std::string_view word = list.substr(0, list.find(' '));
    result.push_back(word);
    list.remove_prefix(word.size());
  }
  return result;
}

int word_index(std::string_view list, std::string_view word) {
  const auto all = words(list);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] == word) return static_cast<int>(i);
  return -1;
}

std::string block_hint(std::string_view text) {
  int number = 0;
  const std::string_view family = split_number(text, number);
  std::vector<std::string_view> names;
  std::vector<std::string> numbered;
  numbered.reserve(std::size(kBlocks));
  for (const Block& block : kBlocks) {
    if (block.numbered && block.name == family)
      return " (blocks of this kind are numbered: " + std::string(block.name) + "1 to " +
             block_text(block.name, kMaxBlockNumber) + ")";
    if (!block.numbered) names.push_back(block.name);
    if (block.numbered)
      names.push_back(
          numbered.emplace_back(block_text(block.name, number > 0 ? number : 1)));
  }
  return did_you_mean(text, names);
}

std::string key_hint(std::string_view block, std::string_view name) {
  const std::string hint = did_you_mean(name, keys_of(block));
  if (!hint.empty()) return hint;
  for (const Parameter& parameter : kParameters)
    if (parameter.name == name)
      return " (<" + std::string(parameter.block) + "> has one of this name)";
  return {};
}

std::string type_text(const Parameter& parameter) {
  switch (parameter.type) {
    case Type::boolean:
      return "true or false";
    case Type::integer:
      return "an integer";
    case Type::real:
      return "a real number";
    case Type::text:
      return "text";
    case Type::choice:
      return "a word";
    case Type::duration:
      return "[[hours:]minutes:]seconds";
    case Type::bytes:
      return "a size";
    case Type::integers:
      return "a list of integers";
    case Type::reals:
      return "a list of real numbers";
    case Type::texts:
      return "a list of texts";
    case Type::choices:
      return "a list of words";
    case Type::fraction_or_file:
      return "a fraction or a file";
  }
  return {};
}

std::string range_text(const Range& range) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool low = range.low > -kInfinity, high = range.high < kInfinity;
  if (low && high)
    return number_text(range.low) + (range.low_open ? " (excluded)" : "") + " to " +
           number_text(range.high) + (range.high_open ? " (excluded)" : "");
  if (low) return (range.low_open ? "above " : "at least ") + number_text(range.low);
  if (high) return (range.high_open ? "below " : "at most ") + number_text(range.high);
  return {};
}

}  // namespace kan::io
