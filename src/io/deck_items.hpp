// One item of a value: how it is read from a deck or from a list on the command line,
// and how it is written so that reading gives it back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kan::io {

/// Longer items are refused: written with every sign escaped they still fit a line.
inline constexpr std::size_t kMaxValueBytes = 16u << 10;

struct Item {
  std::string text;
  bool quoted = false;
};

/// Each reads the item that begins at content[i], up to the comma or the end, where it
/// leaves i. Returns an error message with i at its place, or "".
std::string read_quoted(std::string_view content, std::size_t& i, Item& item);
std::string read_bare(std::string_view content, std::size_t& i, Item& item);

/// The items of a list given on the command line: the grammar of value, where only the
/// comma and the quote are special. Returns an error message, or "".
std::string split_list(std::string_view raw, std::vector<Item>& items);

/// A text as it must be written in a deck: bare where the grammar allows, else quoted.
std::string written(std::string_view text);

}  // namespace kan::io
