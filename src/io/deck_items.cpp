// Items: quoted = '"', { any | "\" ( '"' | "\" | "n" | "t" ) }, '"'; a bare item keeps
// its inner blanks and loses those at its ends.
#include "io/deck_items.hpp"

#include <algorithm>

#include "io/text.hpp"

namespace kan::io {

std::string read_quoted(std::string_view content, std::size_t& i, Item& item) {
  const std::size_t open = i++;
  item.quoted = true;
  for (; i < content.size() && content[i] != '"'; ++i) {
    if (content[i] != '\\') {
      item.text += content[i];
      continue;
    }
    constexpr std::string_view kEscapes = "\"\\nt", kMeaning = "\"\\\n\t";
    const std::size_t which =
        i + 1 < content.size() ? kEscapes.find(content[i + 1]) : std::string_view::npos;
    if (which == std::string_view::npos)
      return "in quotes '\\' is followed by one of \" \\ n t; write \\\\ for one '\\'";
    item.text += kMeaning[which];
    ++i;
  }
  if (i == content.size()) {
    i = open;
    return "the quote is not closed on its line";
  }
  ++i;
  while (i < content.size() && is_blank(content[i])) ++i;
  if (i < content.size() && content[i] != ',') return "text after the closing quote";
  return {};
}

std::string read_bare(std::string_view content, std::size_t& i, Item& item) {
  const std::size_t start = i;
  while (i < content.size() && content[i] != ',') {
    if (std::string_view("\"=<>").find(content[i]) != std::string_view::npos)
      return std::string("'") + content[i] + "' in a value: the value needs quotes";
    ++i;
  }
  item.text = trim(content.substr(start, i - start));
  return {};
}

std::string split_list(std::string_view raw, std::vector<Item>& items) {
  std::size_t i = 0;
  for (;;) {
    while (i < raw.size() && is_blank(raw[i])) ++i;
    if (i == raw.size() || raw[i] == ',')
      return items.empty() && i == raw.size() ? "no value" : "empty item in the list";
    Item item;
    if (raw[i] == '"') {
      const std::string problem = read_quoted(raw, i, item);
      if (!problem.empty()) return problem;
    } else {
      const std::size_t start = i;
      i = std::min(raw.find(',', i), raw.size());
      item.text = trim(raw.substr(start, i - start));
      if (item.text.find('"') != std::string::npos) return "a quote inside an item";
    }
    items.push_back(std::move(item));
    if (i == raw.size()) return {};
    ++i;
  }
}

std::string written(std::string_view text) {
  const bool bare = !text.empty() && trim(text).size() == text.size() &&
                    text.find_first_of("#,\"&=<>\\\n\t") == std::string_view::npos;
  if (bare) return std::string(text);
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  }
  return result + "\"";
}

}  // namespace kan::io
