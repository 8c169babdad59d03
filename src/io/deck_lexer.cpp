// Reading a deck: first the bytes are checked (text, line length, size), then physical
// lines are joined at '&' into logical ones, then each logical line is parsed. A logical
// line remembers where its pieces came from, so that every error has line and column.
#include "io/deck_lexer.hpp"

#include <algorithm>

#include "io/text.hpp"

namespace kan::io {

namespace {

constexpr std::string_view kBom = "\xef\xbb\xbf";

/// Characters from the start of a line to byte `at`, plus one.
std::size_t column_of(std::string_view line, std::size_t at) {
  std::size_t column = 1;
  for (std::size_t i = 0; i < at && i < line.size(); ++i)
    if ((static_cast<unsigned char>(line[i]) & 0xc0u) != 0x80u) ++column;
  return column;
}

/// A line of the file without its end.
std::string_view line_at(std::string_view text, std::size_t begin) {
  std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  const bool ended = begin + line.size() < text.size();
  if (ended && !line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

struct BadByte {
  std::size_t line_begin = std::string_view::npos, at = 0;
  int line = 1;
  std::string message;
};

std::string byte_message(std::string_view text, std::size_t at) {
  if (at == 0 && text.substr(0, 4) == "\x89HDF")
    return "this is an HDF5 file, not a deck; a checkpoint is given with -r";
  if (text[at] == '\0') return "NUL byte: this is not a text file";
  if (utf8_size(text, at) == 0) return "not UTF-8 text: a deck is a plain text file";
  return "control character " + std::to_string(static_cast<int>(text[at])) +
         ": this is not a text file";
}

/// First place that no deck can have: a byte that is no text, a line or file too long.
BadByte find_bad_byte(std::string_view text) {
  BadByte bad;
  std::size_t begin = 0;
  int line = 1;
  const auto found = [&](std::size_t at, const std::string& message) {
    bad = {begin, at, line, message};
  };
  for (std::size_t at = 0; at < text.size();) {
    if (at - begin >= kMaxLineBytes && text[at] != '\n' && text[at] != '\r') {
      found(at, "the line is longer than " + std::to_string(kMaxLineBytes) +
                    " bytes; continue it on the next line with '&'");
      return bad;
    }
    if (at >= kMaxDeckBytes) {
      found(at,
            "the deck is larger than " + std::to_string(kMaxDeckBytes >> 20) + " MiB");
      return bad;
    }
    const char c = text[at];
    if (c == '\n') {
      begin = ++at;
      ++line;
      continue;
    }
    if (c == '\r' && at + 1 < text.size() && text[at + 1] == '\n') {
      ++at;
      continue;
    }
    const std::size_t size = utf8_size(text, at);
    if (size == 0 || is_control(c)) {
      found(at, byte_message(text, at));
      return bad;
    }
    at += size;
  }
  return bad;
}

/// Where a part of a logical line stands in the file.
struct Piece {
  std::size_t offset;     ///< in the logical line
  std::string_view line;  ///< the whole physical line
  std::size_t at;         ///< of the piece in it
  int number;
};

class Lexer {
 public:
  Lexer(const std::string& name, std::string_view text, ErrorList& errors)
      : name_(name), text_(text), errors_(errors) {}

  LexedDeck read() {
    if (text_.substr(0, kBom.size()) == kBom) text_.remove_prefix(kBom.size());
    const BadByte bad = find_bad_byte(text_);
    if (bad.line_begin != std::string_view::npos) {
      const std::string_view line = text_.substr(bad.line_begin);
      add(bad.line, column_of(line, bad.at - bad.line_begin), bad.message);
      deck_.complete = false;
      text_ = text_.substr(0, bad.line_begin);
    }
    while (next_ < text_.size()) read_logical();
    return std::move(deck_);
  }

 private:
  void add(int line, std::size_t column, const std::string& message) {
    errors_.add({name_, line, column}, message);
  }

  void fail(std::size_t offset, const std::string& message) {
    const Piece* piece = &pieces_.front();
    for (const Piece& candidate : pieces_)
      if (candidate.offset <= offset) piece = &candidate;
    add(piece->number, column_of(piece->line, piece->at + offset - piece->offset),
        message);
  }

  std::string_view take_line() {
    const std::string_view line = line_at(text_, next_);
    const std::size_t end = text_.find('\n', next_);
    next_ = end == std::string_view::npos ? text_.size() : end + 1;
    ++line_;
    return line;
  }

  void read_logical() {
    joined_.clear();
    pieces_.clear();
    std::string_view line = take_line();
    if (in_comment_ && trim(line).substr(0, 1) != "<") return;
    in_comment_ = false;
    bool sound = true;
    for (;;) {
      const std::size_t end = content_end(line);
      pieces_.push_back({joined_.size(), line, 0, line_});
      joined_ += line.substr(0, end);
      if (end == line.size() || line[end] == '#') break;
      sound = continued(line, end) && sound;
      if (!sound) break;
      joined_ += ' ';
      line = take_line();
    }
    parse(sound);
  }

  /// Position of the first '#' or '&' outside quotes.
  static std::size_t content_end(std::string_view line) {
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"') quoted = !quoted;
      if (quoted && line[i] == '\\') ++i;
      if (!quoted && i < line.size() && (line[i] == '#' || line[i] == '&')) return i;
    }
    return line.size();
  }

  /// Checks the '&' at `at`: it ends its line and is followed by a line to append.
  bool continued(std::string_view line, std::size_t at) {
    const std::size_t column = column_of(line, at);
    const std::string_view rest = trim(line.substr(at + 1));
    if (!rest.empty() && rest[0] != '#') {
      add(line_, column,
          "'&' goes on with the next line and ends this one; text that "
          "holds it needs quotes");
      return false;
    }
    if (text_.find_first_not_of(" \t\r\n", next_) == std::string_view::npos) {
      add(line_, column, "'&' at the end of the deck: the line to go on with is missing");
      return false;
    }
    if (trim(line_at(text_, next_)).substr(0, 1) == "<") {
      add(line_, column, "'&' before a header: the line to go on with is missing");
      return false;
    }
    return true;
  }

  void parse(bool sound) {
    const std::string_view content = trim(joined_);
    if (content.empty()) return;
    const auto at = static_cast<std::size_t>(content.data() - joined_.data());
    if (content[0] == '<') {
      if (sound) parse_header(content, at);
      return;
    }
    const std::size_t size = ident_size(content);
    if (size == 0) {
      fail(at,
           "a line is <block> or key = value, where a key is made of letters, digits "
           "and '_'");
      return;
    }
    const std::string key(content.substr(0, size));
    if (deck_.headers.empty()) {
      if (!header_failed_) fail(at, "key '" + shown(key) + "' before the first <block>");
      return;
    }
    Assignment assignment{
        deck_.headers.size() - 1, key, {}, pieces_.front().number, false};
    // After an error at '&' the rest of the line would only be blamed twice.
    assignment.broken = !sound || !parse_values(content, at, size, assignment.items);
    if (!header_failed_) deck_.assignments.push_back(std::move(assignment));
  }

  void parse_header(std::string_view content, std::size_t at) {
    header_failed_ = true;
    const std::size_t size = ident_size(content.substr(1));
    const std::size_t close = content.find('>');
    if (close == std::string_view::npos) {
      fail(at, "'<' is not closed: a header is <block>");
    } else if (size == 0 || close != size + 1) {
      fail(at + 1,
           "a header is <block>, where block is made of letters, digits and '_', "
           "without blanks");
    } else if (close + 1 < content.size()) {
      fail(at + content.find_first_not_of(" \t", close + 1),
           "text after the header <" + shown(content.substr(1, size)) +
               ">: it belongs on the next line");
    } else {
      header_failed_ = false;
    }
    // Text after a good header does not hide which block the lines below belong to.
    if (size > 0 && close == size + 1) {
      header_failed_ = false;
      deck_.headers.push_back(
          {std::string(content.substr(1, size)), pieces_.front().number});
      in_comment_ = deck_.headers.back().block == "comment";
    }
  }

  /// The part from "=" on; `at` is the offset of `content` in the logical line.
  bool parse_values(std::string_view content, std::size_t at, std::size_t key_size,
                    std::vector<Item>& items) {
    std::size_t i = key_size;
    const auto skip = [&] {
      while (i < content.size() && is_blank(content[i])) ++i;
    };
    const auto wrong = [&](std::size_t where, const std::string& message) {
      fail(at + where, message);
      return false;
    };
    const std::string key = shown(content.substr(0, key_size));
    skip();
    if (i == content.size()) return wrong(key_size, "no '=' after '" + key + "'");
    if (content[i] != '=')
      return wrong(
          i, "'=' is expected after '" + key + "'" +
                 (i == key_size ? "; a key is made of letters, digits and '_'" : ""));
    ++i;
    for (;;) {
      skip();
      if (i == content.size() || content[i] == ',') {
        const bool only = items.empty() && i == content.size();
        return wrong(i, only ? "'" + key + "' has no value; empty text is \"\""
                             : "empty item in the list of '" + key + "'");
      }
      const std::size_t start = i;
      Item item;
      std::string problem =
          content[i] == '"' ? read_quoted(content, i, item) : read_bare(content, i, item);
      if (problem.empty() && item.text.size() > kMaxValueBytes)
        problem = "a value is longer than " + std::to_string(kMaxValueBytes) + " bytes";
      if (!problem.empty()) return wrong(std::max(i, start), problem);
      items.push_back(std::move(item));
      if (i == content.size()) return true;
      ++i;  // the comma
    }
  }

  const std::string& name_;
  std::string_view text_;
  ErrorList& errors_;
  LexedDeck deck_;
  std::size_t next_ = 0;
  int line_ = 0;
  bool in_comment_ = false;
  bool header_failed_ = false;  ///< keys below a header that is wrong are not judged
  std::string joined_;
  std::vector<Piece> pieces_;
};

}  // namespace

LexedDeck lex_deck(const std::string& name, std::string_view text, ErrorList& errors) {
  return Lexer(name, text, errors).read();
}

}  // namespace kan::io
