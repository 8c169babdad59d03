// Resolving a deck: each source becomes a layer of values, layers are laid over each
// other from the weakest to the strongest, and the result is checked as a whole.
#include "io/deck.hpp"

#include <filesystem>
#include <iterator>
#include <set>

#include "io/deck_checks.hpp"
#include "io/deck_lexer.hpp"
#include "io/text.hpp"

namespace kan::io {

namespace {
constexpr const char* kCommandLine = "command line";
}

std::string Origin::text() const {
  switch (source) {
    case Source::fallback:
      return "default";
    case Source::restart:
      return "restart " + shown(file) + ":" + std::to_string(line);
    case Source::deck:
      return shown(file) + ":" + std::to_string(line);
    case Source::command_line:
      return kCommandLine;
  }
  return {};
}

std::string Slot::text() const {
  return block_text(declared().block, number) + "/" + std::string(declared().name);
}

const Entry* Deck::entry(const Slot& slot) const {
  const auto found = entries_.find(slot);
  return found == entries_.end() ? nullptr : &found->second;
}

Place Deck::place(const Slot& slot) const {
  const Entry* found = entry(slot);
  if (found == nullptr || found->origin.source == Origin::Source::fallback)
    return {name_};
  if (found->origin.source == Origin::Source::command_line) return {kCommandLine};
  return {found->origin.file, found->origin.line};
}

std::vector<int> Deck::numbers_of(int parameter) const {
  std::vector<int> numbers;
  for (auto it = entries_.lower_bound({parameter, 1});
       it != entries_.end() && it->first.parameter == parameter; ++it)
    numbers.push_back(it->first.number);
  return numbers;
}

namespace {

/// What one source gives.
struct Layer {
  std::map<Slot, Entry> entries;
  std::set<std::pair<std::string_view, int>>
      numbered;  ///< blocks of families that it opens
};

/// Equal for the state: one entry for all layers is the same as that entry for each.
bool same(const Value& a, const Value& b) {
  if (a == b) return true;
  const auto* left = std::get_if<std::vector<std::int64_t>>(&a);
  const auto* right = std::get_if<std::vector<std::int64_t>>(&b);
  if (left == nullptr || right == nullptr) return false;
  if (left->size() > right->size()) std::swap(left, right);
  return left->size() == 1 &&
         *right == std::vector<std::int64_t>(right->size(), left->front());
}

// Names of files become absolute, so that the deck stored in a checkpoint finds them from
// any directory.
void make_absolute(Layer& layer, const std::string& directory) {
  if (directory.empty()) return;
  const auto absolute = [&](std::string& name) {
    if (!name.empty()) name = (std::filesystem::path(directory) / name).string();
  };
  for (auto& [slot, entry] : layer.entries) {
    if (!entry.value) continue;
    if (slot.parameter == key::data_file.index)
      absolute(std::get<std::string>(*entry.value));
    else if (auto* part = std::get_if<FractionOrFile>(&*entry.value))
      absolute(part->file);
  }
}

}  // namespace

class DeckResolver {
 public:
  explicit DeckResolver(const DeckSources& sources) : sources_(sources) {
    deck_.name_ = sources.deck      ? sources.deck->name
                  : sources.restart ? sources.restart->name
                                    : kCommandLine;
  }

  Deck resolve() {
    if (sources_.restart) lay(read_text(*sources_.restart, Origin::Source::restart));
    const std::map<Slot, Entry> stored = with_defaults();
    if (sources_.deck) lay(read_text(*sources_.deck, Origin::Source::deck));
    lay(read_overrides());
    // What follows would blame keys that were never read.
    if (!readable_) errors_.raise();
    deck_.entries_ = with_defaults();
    check_deck(deck_, broken_, errors_);
    if (sources_.restart) check_structure(stored);
    note_unused();
    if (sources_.warnings_are_errors)
      for (const Deck::Note& note : deck_.notes_)
        errors_.add(note.place, note.message + " (an error under -W)");
    errors_.raise();
    return std::move(deck_);
  }

 private:
  Layer read_text(const DeckText& source, Origin::Source kind) {
    const LexedDeck lexed = lex_deck(source.name, source.text, errors_);
    readable_ = readable_ && lexed.complete;
    const auto place = [&](int line) { return Place{source.name, line}; };
    Layer layer;
    std::vector<BlockName> blocks;
    for (const Header& header : lexed.headers) {
      blocks.push_back(find_block(header.block));
      const BlockName& block = blocks.back();
      if (block.index < 0 && header.block != "comment")
        errors_.add(place(header.line),
                    "unknown block <" + shown(header.block) + ">" +
                        (errors_.full() ? "" : block_hint(header.block)));
      if (block.number > 0)
        layer.numbered.insert({kBlocks[block.index].name, block.number});
    }
    std::map<Slot, int> first_line;
    for (const Assignment& assignment : lexed.assignments) {
      const BlockName& block = blocks[assignment.block];
      if (block.index < 0) continue;
      const Slot slot{find_parameter(kBlocks[block.index].name, assignment.key),
                      block.number};
      if (slot.parameter < 0) {
        errors_.add(place(assignment.line), unknown_key(block, assignment.key));
        continue;
      }
      const auto [line, fresh] = first_line.insert({slot, assignment.line});
      if (!fresh) {
        errors_.add(place(assignment.line),
                    slot.text() + " is already given on line " +
                        std::to_string(line->second) +
                        "; keep one (the command line may replace it)");
        continue;
      }
      if (assignment.broken) {
        broken_.insert(slot);
        continue;
      }
      try {
        layer.entries[slot] = {parse_value(slot.declared(), assignment.items),
                               {kind, source.name, assignment.line}};
      } catch (const BadValue& bad) {
        broken_.insert(slot);
        std::string text;
        for (const Item& item : assignment.items)
          text += (text.empty() ? "" : ", ") + item.text;
        errors_.add(place(assignment.line),
                    slot.text() + " = " + shown(text) + ": " + bad.what());
      }
    }
    make_absolute(layer, source.directory);
    return layer;
  }

  std::string unknown_key(const BlockName& block, const std::string& key) const {
    const std::string_view name = kBlocks[block.index].name;
    return "<" + block_text(name, block.number) + "> has no key '" + shown(key) + "'" +
           (errors_.full() ? "" : key_hint(name, key));
  }

  Layer read_overrides() {
    Layer layer;
    for (const std::string& text : sources_.overrides) {
      const Place place{kCommandLine};
      const std::size_t block_size = ident_size(text);
      const std::size_t key_at = block_size + 1;
      const std::size_t key_size =
          key_at < text.size() ? ident_size(std::string_view(text).substr(key_at)) : 0;
      const std::size_t equals = key_at + key_size;
      if (block_size == 0 || key_size == 0 || text[block_size] != '/' ||
          equals >= text.size() || text[equals] != '=') {
        errors_.add(place, "'" + shown(text) + "' is not block/key=value");
        continue;
      }
      const std::string key = text.substr(key_at, key_size);
      const std::string block_name = text.substr(0, block_size);
      const BlockName block = find_block(block_name);
      if (block.index < 0) {
        errors_.add(place, shown(text) + ": unknown block '" + shown(block_name) + "'" +
                               block_hint(block_name));
        continue;
      }
      const Slot slot{find_parameter(kBlocks[block.index].name, key), block.number};
      if (slot.parameter < 0) {
        errors_.add(place, shown(text) + ": " + unknown_key(block, key));
        continue;
      }
      if (block.number > 0)
        layer.numbered.insert({kBlocks[block.index].name, block.number});
      try {
        auto value =
            parse_override(slot.declared(), std::string_view(text).substr(equals + 1));
        const auto [entry, fresh] = layer.entries.insert_or_assign(
            slot, Entry{std::move(value), {Origin::Source::command_line, {}, 0}});
        if (!fresh)
          deck_.notes_.push_back(
              {place, slot.text() + " is given more than once: the last one holds"});
        broken_.erase(slot);
      } catch (const BadValue& bad) {
        broken_.insert(slot);
        errors_.add(place, shown(text) + ": " + bad.what());
      }
    }
    make_absolute(layer, sources_.directory);
    return layer;
  }

  /// Lays a layer over those before it. An exclusive key takes back its rivals.
  void lay(Layer layer) {
    numbered_.insert(layer.numbered.begin(), layer.numbered.end());
    for (const auto& [slot, entry] : layer.entries) {
      if (!slot.declared().exclusive || !entry.value) continue;
      for (int i = 0; i < static_cast<int>(std::size(kParameters)); ++i)
        if (kParameters[i].exclusive && kParameters[i].block == slot.declared().block)
          laid_.erase({i, slot.number});
    }
    for (auto& [slot, entry] : layer.entries)
      laid_.insert_or_assign(slot, std::move(entry));
  }

  /// The layers over the defaults: an entry for every parameter of every block.
  std::map<Slot, Entry> with_defaults() const {
    std::map<Slot, Entry> entries;
    for (int i = 0; i < static_cast<int>(std::size(kParameters)); ++i) {
      const Parameter& parameter = kParameters[i];
      Entry entry;
      if (!parameter.fallback.empty())
        entry.value = parse_value(parameter, {{std::string(parameter.fallback), false}});
      for (const auto& [block, number] : numbered_)
        if (block == parameter.block) entries[{i, number}] = entry;
      bool numbered = false;
      for (const Block& block : kBlocks)
        numbered = numbered || (block.numbered && block.name == parameter.block);
      if (!numbered) entries[{i, 0}] = entry;
    }
    entries[{key::job_name.index, 0}].value = default_name();
    for (const auto& [slot, entry] : laid_) entries[slot] = entry;
    return entries;
  }

  std::string default_name() const {
    if (!sources_.deck) return "kan";
    const std::string stem = std::filesystem::path(sources_.deck->name).stem().string();
    constexpr std::size_t kLongestName = 200;
    return stem.empty() ? "kan" : shown(stem, kLongestName);
  }

  void check_structure(const std::map<Slot, Entry>& stored) {
    for (const auto& [slot, entry] : deck_.entries_) {
      const auto before = stored.find(slot);
      if (slot.declared().cls != Class::structural || broken_.contains(slot) ||
          before == stored.end() || use_of(deck_, slot) != Use::yes)
        continue;
      const auto& now = entry.value;
      const auto& then = before->second.value;
      // A state without this value cannot be; the missing key is listed by the checks.
      if (!now || !then || same(*now, *then)) continue;
      errors_.add(deck_.place(slot),
                  slot.text() + " = " + value_text(slot.declared(), now) +
                      " differs from " + value_text(slot.declared(), then) + " of " +
                      sources_.restart->name +
                      "; a restart cannot change a structural key: leave "
                      "it out, or start without -r");
    }
  }

  /// Keys of the restart's deck are not the user's doing now.
  void note_unused() {
    for (const auto& [slot, entry] : deck_.entries_) {
      const Origin::Source source = entry.origin.source;
      const bool given =
          source == Origin::Source::deck || source == Origin::Source::command_line;
      if (given && entry.value && use_of(deck_, slot) == Use::no)
        deck_.notes_.push_back(
            {deck_.place(slot), slot.text() + " is not used here; it goes with " +
                                    goes_with(slot.declared())});
    }
  }

  const DeckSources& sources_;
  Deck deck_;
  ErrorList errors_;
  bool readable_ = true;
  std::set<Slot> broken_;
  std::set<std::pair<std::string_view, int>> numbered_;
  std::map<Slot, Entry> laid_;
};

Deck resolve_deck(const DeckSources& sources) {
  constexpr std::size_t kLongestPath = 4096;
  DeckSources clean = sources;
  for (auto* text : {&clean.restart, &clean.deck})
    if (*text) (*text)->name = shown((*text)->name, kLongestPath);
  return DeckResolver(clean).resolve();
}

}  // namespace kan::io
