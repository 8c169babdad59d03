// The resolved deck: one typed value for every declared parameter, each with its origin.
//
//   defaults < deck stored in the restart < deck given < command line
//
// resolve_deck reads all sources, checks them together and throws DeckErrors with every
// error it found; the Deck it returns is complete, consistent and does not change. Texts
// are arguments, so that rank 0 can read them and all ranks resolve the same bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "io/deck_errors.hpp"
#include "io/deck_values.hpp"
#include "io/keys.hpp"

namespace kan::io {

struct DeckText {
  std::string name;  ///< as errors show it: the path of the deck or of the checkpoint
  std::string text;
  /// What names of files in the deck are relative to; empty: they stay as they are.
  std::string directory = {};
};

struct DeckSources {
  std::optional<DeckText> restart;     ///< deck stored in the checkpoint
  std::optional<DeckText> deck;        ///< deck given
  std::vector<std::string> overrides;  ///< block/key=value of the command line, in order
  std::string directory = {};        ///< what names of files in overrides are relative to
  bool warnings_are_errors = false;  ///< -W: a note is an error
};

struct Origin {
  enum class Source { fallback, restart, deck, command_line };
  Source source = Source::fallback;
  std::string file = {};
  int line = 0;

  /// "default", "restart x.rst.h5:4", "input.deck:14", "command line".
  std::string text() const;
};

/// A parameter (row of kParameters) of a block; number is 0 outside numbered families.
struct Slot {
  int parameter = -1, number = 0;
  auto operator<=>(const Slot&) const = default;

  const Parameter& declared() const { return kParameters[parameter]; }
  std::string text() const;  ///< "output1/dstep"
};

/// Without a value: not given, no default, or taken back with the parameter's off word.
struct Entry {
  std::optional<Value> value;
  Origin origin;
};

class Deck {
 public:
  /// Value of a parameter; number names the block of a numbered family. find: empty
  /// where there is none. get: for parameters that always have one.
  template <class T>
  std::optional<T> find(Key<T> key, int number = 0) const;
  template <class T>
  T get(Key<T> key, int number = 0) const;

  /// A choice as the deck writes it.
  template <class T>
  std::string word(Key<T> key, int number = 0) const {
    static_assert(std::is_enum_v<T>, "only a choice is a word");
    return value_text(key.parameter(), entries_.at({key.index, number}).value);
  }

  /// "input.deck:14: data/file": the start of a message about a value.
  template <class T>
  std::string where(Key<T> key, int number = 0) const {
    return where(Slot{key.index, number});
  }
  std::string where(const Slot& slot) const {
    return place(slot).text() + ": " + slot.text();
  }
  Place place(const Slot& slot) const;
  template <class T>
  const Origin& origin(Key<T> key, int number = 0) const {
    return entries_.at({key.index, number}).origin;
  }

  /// Numbers of the blocks of the key's family, ascending: of <output2>, <output7> 2, 7.
  template <class T>
  std::vector<int> numbers(Key<T> key) const {
    return numbers_of(key.index);
  }

  /// Keys given but not used, overrides given twice: for rank 0 to print.
  struct Note {
    Place place;
    std::string message;
    std::string text() const { return place.text() + ": " + message; }
  };
  const std::vector<Note>& notes() const { return notes_; }
  /// Name of the deck given, or of the checkpoint, or "command line".
  const std::string& name() const { return name_; }
  const std::map<Slot, Entry>& entries() const { return entries_; }

 private:
  friend class DeckResolver;
  std::vector<int> numbers_of(int parameter) const;
  const Entry* entry(const Slot& slot) const;

  std::string name_;
  std::map<Slot, Entry> entries_;
  std::vector<Note> notes_;
};

/// Throws DeckErrors (code 2) that lists every error of all sources.
Deck resolve_deck(const DeckSources& sources);

/// Text of a deck file. Throws Error (code 2) where it cannot be read; of a file too
/// large for a deck only as much is read as the error needs.
std::string read_deck(const std::string& path);

/// A deck that resolves to the same values, each with its origin as a comment.
std::string resolved_text(const Deck& deck);

template <class T>
std::optional<T> Deck::find(Key<T> key, int number) const {
  const Entry* found = entry({key.index, number});
  if (found == nullptr || !found->value) return std::nullopt;
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(std::get<std::int64_t>(*found->value));
  } else if constexpr (kIsValue<T>) {
    return std::get<T>(*found->value);
  } else {
    T list;
    for (std::int64_t index : std::get<std::vector<std::int64_t>>(*found->value))
      list.push_back(static_cast<typename T::value_type>(index));
    return list;
  }
}

template <class T>
T Deck::get(Key<T> key, int number) const {
  std::optional<T> value = find(key, number);
  KAN_REQUIRE(value, where(key, number) + " has no value");
  return *std::move(value);
}

}  // namespace kan::io
