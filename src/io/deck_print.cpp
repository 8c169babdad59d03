// The file of a deck read as text, and a resolved deck written as one.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "io/deck.hpp"
#include "io/deck_checks.hpp"
#include "io/deck_lexer.hpp"
#include "io/text.hpp"

namespace kan::io {

std::string read_deck(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char piece[65536];
  // One byte more than a deck can have is enough for the error that says so.
  while (file && text.size() <= kMaxDeckBytes) {
    file.read(piece, sizeof piece);
    text.append(piece, static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || (!file.eof() && text.size() <= kMaxDeckBytes))
    throw Error(Code::usage, shown(path, 4096) + ": the deck cannot be read: " +
                                 (errno != 0 ? std::strerror(errno) : "input error"));
  return text;
}

namespace {

/// "key = a, b, &" lines of a readable width.
std::string assignment_text(const Slot& slot, const std::optional<Value>& value) {
  constexpr std::size_t kWidth = 80;
  std::string text, line = std::string(slot.declared().name) + " =";
  const auto items = value_items(slot.declared(), value);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = " " + items[i] + (i + 1 < items.size() ? "," : "");
    if (line.size() + item.size() > kWidth && i > 0) {
      text += line + " &\n";
      line = "   ";
    }
    line += item;
  }
  return text + line;
}

}  // namespace

std::string resolved_text(const Deck& deck) {
  std::string text;
  // By block as the table has them, numbered blocks one after the other.
  for (const Block& declared : kBlocks) {
    std::map<int, std::vector<Slot>> slots;
    for (const auto& [slot, entry] : deck.entries())
      if (slot.declared().block == declared.name) slots[slot.number].push_back(slot);
    for (const auto& [number, list] : slots) {
      text += (text.empty() ? "<" : "\n<") + block_text(declared.name, number) + ">\n";
      for (const Slot& slot : list) {
        const Entry& entry = deck.entries().at(slot);
        if (!entry.value && slot.declared().off.empty()) continue;
        std::string line = assignment_text(slot, entry.value);
        if (use_of(deck, slot) == Use::no) {
          // The printed deck has no keys without a use, else it would not pass -W.
          if (entry.origin.source == Origin::Source::fallback) continue;
          line = "# not used: " + std::string(slot.declared().name);
        }
        constexpr std::size_t kOriginColumn = 36;
        const std::size_t width = line.size() - (line.rfind('\n') + 1);
        if (width < kOriginColumn) line.append(kOriginColumn - width, ' ');
        text += line + "  # " + entry.origin.text() + "\n";
      }
    }
  }
  return text;
}

}  // namespace kan::io
