// The errors of a deck or a command line, all of them at once: exit code 2 with several
// lines. Each line begins with the place: `FILE:LINE: `, `FILE:LINE:COLUMN: ` for a
// grammar error, or `command line: `. Columns count characters from 1.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kan/error.hpp"

namespace kan::io {

class DeckErrors : public Error {
 public:
  explicit DeckErrors(std::vector<std::string> lines);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// Where an error is: line 0 is the file as a whole, column 0 the line as a whole.
struct Place {
  std::string file;
  int line = 0;
  std::size_t column = 0;

  std::string text() const;  ///< "input.deck:14:3"
};

/// Collects errors while a deck is read. They are shown in the order of the lines of each
/// file, the first kShown of them; the rest are counted, so that a file that is no deck
/// at all does not flood the screen.
class ErrorList {
 public:
  static constexpr std::size_t kShown = 40;
  /// Some more than are shown, so that the first lines are among them after sorting.
  static constexpr std::size_t kKept = 50 * kShown;

  void add(const Place& place, const std::string& message);
  /// Further errors are counted only: their texts need not be made.
  bool full() const { return count_ >= kKept; }
  /// Throws DeckErrors if there are any.
  void raise() const;

 private:
  struct Entry {
    std::size_t file;
    Place place;
    std::string message;
  };
  std::vector<std::string> files_;
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace kan::io
