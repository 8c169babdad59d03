// Error lists of decks and command lines.
#include "io/deck_errors.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace kan::io {

namespace {
std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}
}  // namespace

DeckErrors::DeckErrors(std::vector<std::string> lines)
    : Error(Code::usage, joined(lines)), lines_(std::move(lines)) {}

std::string Place::text() const {
  return file + (line > 0 ? ":" + std::to_string(line) : "") +
         (column > 0 ? ":" + std::to_string(column) : "");
}

void ErrorList::add(const Place& place, const std::string& message) {
  if (++count_ > kKept) return;
  const auto found = std::find(files_.begin(), files_.end(), place.file);
  const auto file = static_cast<std::size_t>(found - files_.begin());
  if (found == files_.end()) files_.push_back(place.file);
  entries_.push_back({file, place, message});
}

void ErrorList::raise() const {
  if (count_ == 0) return;
  std::vector<Entry> sorted = entries_;
  // What is wrong with a file as a whole (missing keys) comes after its lines.
  const auto order = [](const Entry& entry) {
    const int line =
        entry.place.line > 0 ? entry.place.line : std::numeric_limits<int>::max();
    return std::tuple(entry.file, line, entry.place.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Entry& a, const Entry& b) { return order(a) < order(b); });
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min(sorted.size(), kShown); ++i)
    lines.push_back(sorted[i].place.text() + ": " + sorted[i].message);
  if (count_ > kShown)
    lines.push_back("and " + std::to_string(count_ - kShown) + " more errors");
  throw DeckErrors(std::move(lines));
}

}  // namespace kan::io
