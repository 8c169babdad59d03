// The grammar of the deck: bytes to headers and assignments, with places. Nothing here
// knows which blocks and keys exist.
//
//   deck     = [ BOM ], { logical } ;      physical lines are joined first, see cont
//   logical  = ws, [ header | assign ], ws, [ comment ], eol ;
//   header   = "<", ident, ">" ;
//   assign   = ident, ws, "=", ws, value, { ws, ",", ws, value } ;
//   value    = quoted | bare ;
//   quoted   = '"', { qchar | "\", ( '"' | "\" | "n" | "t" ) }, '"' ;
//   bare     = bchar, { { blank }, bchar } ;     bchar: printable, none of # , " & = < >
//   cont     = "&", ws, [ comment ], eol ;       the next line follows after one blank
//
// The lines after a header <comment>, up to the next that begins with "<", are free text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "io/deck_errors.hpp"
#include "io/deck_items.hpp"

namespace kan::io {

/// Larger decks and lines are refused before they cost time.
inline constexpr std::size_t kMaxDeckBytes = 4u << 20;
inline constexpr std::size_t kMaxLineBytes = 64u << 10;

struct Header {
  std::string block;
  int line = 0;
};

/// block: position in LexedDeck::headers. broken: the key is known, the value could not
/// be read (the error is listed).
struct Assignment {
  std::size_t block = 0;
  std::string key;
  std::vector<Item> items;
  int line = 0;
  bool broken = false;
};

struct LexedDeck {
  std::vector<Header> headers;
  std::vector<Assignment> assignments;
  bool complete = true;  ///< false: bytes that are no text ended the reading
};

/// Reads a deck; every grammar error goes to `errors` with `name`, line and column, and
/// reading goes on with the next line. Bytes that are no text end the reading.
LexedDeck lex_deck(const std::string& name, std::string_view text, ErrorList& errors);

}  // namespace kan::io
