// The declared table as people read it: -p on the screen, docs/deck.md in the manual.
#include <string>

#include "io/parameter_table.hpp"
#include "io/text.hpp"

namespace kan::io {

namespace {

std::string block_title(const Block& block) {
  return "<" + std::string(block.name) + (block.numbered ? "N" : "") + ">";
}

/// "default 5", "required", "optional"; the default of job/name is said in its text.
std::string default_text(const Parameter& parameter) {
  if (!parameter.fallback.empty()) return std::string(parameter.fallback);
  if (!parameter.off.empty()) return std::string(parameter.off);
  return parameter.required ? "required" : "";
}

/// Accepted words or the range.
std::string values_text(const Parameter& parameter) {
  if (!parameter.choices.empty()) return join(words(parameter.choices));
  const std::string range = range_text(parameter.range);
  return type_text(parameter) + (range.empty() ? "" : ", " + range);
}

std::string when_text(const When& when) {
  if (when.key.empty()) return {};
  return std::string(when.key) + " = " + join(words(when.words), " or ");
}

/// Lines of a readable width, each after `indent` blanks.
std::string wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kWidth = 88;
  std::string result, line;
  for (std::string_view word : words(text)) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      result += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return result + std::string(indent, ' ') + line + "\n";
}

std::string class_text(const Parameter& parameter) {
  return parameter.cls == Class::structural ? "structural" : "";
}

constexpr const char* kIntroduction = R"(# The deck

Generated from the declared parameters (`kan_driver -p` prints the same table).

A deck is text: blocks `<name>` of lines `key = value`.

    <network>                   # a comment runs to the end of its line
    widths = 2, 5, &            # a list; & goes on with the next line
             1
    <data>
    source = function
    expressions = "sin(x), y"   # text that holds # , " & = < > is quoted

- Names are case-sensitive. In quotes, `\"`, `\\`, `\n` and `\t` are one sign each.
- Every key is one of the tables below. An unknown key or block, a value of the wrong
  type, and a key given twice in one deck are errors, all listed at once with file and
  line. A block may be opened again further down.
- Integers are digits (1000000, not 1e6). true, yes, on and 1 are the same, as are false,
  no, off and 0, in any case. Sizes take B, KiB, MiB or GiB.
- The word of the column "default" (none, off, all, auto) can be written, to take back
  what a weaker source has set.
- Strength: defaults, then the deck inside the checkpoint of a restart, then the deck,
  then `block/key=value` on the command line. There the text after the first `=` is taken
  as it is; only lists are split at commas, and quotes hold an item with a comma.
- Keys marked structural fix the shape or the meaning of the state: a restart cannot
  change them. All others are free.
- A key that the chosen configuration does not use is a note, and an error under `-W`.
- The lines below `<comment>`, up to the next line that begins with `<`, are free text.
- `kan_driver -n DECK` checks a deck and prints it in full, with the origin of each value.
)";

}  // namespace

std::string parameter_list() {
  std::string text;
  for (const Block& block : kBlocks) {
    text +=
        (text.empty() ? "" : "\n") + block_title(block) + "\n" + wrapped(block.doc, 2);
    for (const Parameter& parameter : kParameters) {
      if (parameter.block != block.name) continue;
      text += "  " + std::string(parameter.name);
      const std::string preset = default_text(parameter);
      if (!preset.empty()) text += parameter.required ? "  " + preset : " = " + preset;
      text += "  [" + values_text(parameter);
      if (!class_text(parameter).empty()) text += "; " + class_text(parameter);
      if (!parameter.when.key.empty()) text += "; with " + when_text(parameter.when);
      text += "]\n" + wrapped(parameter.doc, 6);
    }
  }
  return text;
}

std::string deck_reference() {
  std::string text = kIntroduction;
  for (const Block& block : kBlocks) {
    text += "\n## `" + block_title(block) + "`\n\n" + std::string(block.doc) + "\n\n" +
            "| key | default | values | meaning |\n| --- | --- | --- | --- |\n";
    for (const Parameter& parameter : kParameters) {
      if (parameter.block != block.name) continue;
      text += "| `" + std::string(parameter.name) + "` | " + default_text(parameter) +
              " | " + values_text(parameter) + " | " + std::string(parameter.doc);
      if (!parameter.when.key.empty())
        text += " Used with " + when_text(parameter.when) + ".";
      if (parameter.cls == Class::structural) text += " *Structural.*";
      text += " |\n";
    }
  }
  return text;
}

}  // namespace kan::io
