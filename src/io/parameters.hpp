// What a parameter of the deck is: block, key, type, default, range or choices, when it
// is used, and one line of documentation. Every parameter is declared once, as a row of
// kParameters (parameter_table.hpp); the parser, the checks, the printed deck, -p and
// docs/deck.md all read that table.
//
// Code takes a value through a typed handle Key<T> (keys.hpp), which is looked up in the
// table by the compiler: a misspelt key or a wrong type does not compile.
//
// Defaults are written as they would be in a deck. A parameter may have an `off` word
// (none, off, all, auto): writing it is the same as not having the value, so that a deck
// or the command line can take back what a restart's deck set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace kan::io {

enum class Type {
  boolean,
  integer,
  real,
  text,
  choice,    ///< one of `choices`, held as its position in that list
  duration,  ///< [[hh:]mm:]ss, held in seconds
  bytes,     ///< a size with an optional suffix B, KiB, MiB or GiB
  integers,  ///< lists: one value or several, separated by commas
  reals,
  texts,
  choices,
  fraction_or_file  ///< a number between 0 and 1, or the name of a file
};

/// structural: changes the shape or the meaning of the state, so a restart cannot change
/// it. run: free at a restart.
enum class Class { run, structural };

/// Allowed numbers; an open end is not allowed itself.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
};
constexpr Range at_least(double low) { return {.low = low}; }
constexpr Range above(double low) { return {.low = low, .low_open = true}; }

/// The parameter is used where the choice block/key (of the same numbered block, if it
/// is one) has one of `words`, separated by blanks. Empty: always.
struct When {
  std::string_view block, key, words;
};

struct Parameter {
  std::string_view block, name;
  Type type = Type::text;
  bool required = false;           ///< an error where it is used and missing
  std::string_view fallback = {};  ///< default, in the words of a deck; empty: none
  std::string_view off = {};       ///< word for "no value"
  Range range = {};                ///< numbers, and each entry of lists of numbers
  std::string_view choices = {};   ///< accepted words, separated by blanks
  When when = {};
  Class cls = Class::run;
  bool exclusive = false;  ///< setting it takes back the block's other exclusive keys
  std::string_view doc = {};
};

struct Block {
  std::string_view name;
  bool numbered = false;  ///< a family: output1, output2, ...
  std::string_view doc;
};

/// Largest number of a block of a family.
inline constexpr int kMaxBlockNumber = 9999;

/// A block as a deck names it: position in kBlocks and the number within a family (0
/// otherwise). index < 0: unknown.
struct BlockName {
  int index = -1, number = 0;
};
BlockName find_block(std::string_view text);
/// Position in kParameters, or -1.
int find_parameter(std::string_view block, std::string_view name);
/// "output2", "run".
std::string block_text(std::string_view block, int number);

/// The words of a blank-separated list.
std::vector<std::string_view> words(std::string_view list);
/// Position of a word in a blank-separated list, or -1.
int word_index(std::string_view list, std::string_view word);

/// " (did you mean 'X'?)" for the declared name nearest to a misspelt one, or "".
std::string block_hint(std::string_view text);
std::string key_hint(std::string_view block, std::string_view name);

/// "an integer", "a list of real numbers": for messages and the manual.
std::string type_text(const Parameter& parameter);
/// "at least 1", "0 to 1 (1 excluded)"; empty where every number is allowed.
std::string range_text(const Range& range);

/// The table as -p prints it, and as docs/deck.md holds it.
std::string parameter_list();
std::string deck_reference();

}  // namespace kan::io
