// Properties that hold for every deck: a valid one resolves to the values that were
// written, and its printed form resolves to the same again; whatever the bytes are, the
// answer is a deck or errors of code 2, never a crash or another exception. All cases are
// made from fixed seeds.
#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "io/deck_checks.hpp"
#include "io/options.hpp"
#include "io/text.hpp"
#include "unit/deck_helpers.hpp"

using namespace deck_test;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  /// 0 to n - 1.
  int below(int n) { return static_cast<int>(bits_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  std::string pick(const std::vector<std::string>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  /// Any finite double, by its bits.
  double real() {
    for (;;) {
      const auto value = std::bit_cast<double>(bits_());
      if (std::isfinite(value)) return value;
    }
  }
  std::int64_t integer() { return static_cast<std::int64_t>(bits_() >> (1 + below(63))); }

  std::string text() {
    static const std::vector<std::string> kPieces = {
        "a",  "B", "7",    " ",    "  ",  "\t",       "\n",          "\"",
        "\\", "#", ",",    "&",    "=",   "<",        ">",           "/",
        ".",  "-", "none", "auto", "0.5", "\xc3\xb6", "\xe2\x82\xac"};
    std::string result;
    for (int n = below(6); n >= 0; --n) result += pick(kPieces);
    return result;
  }

 private:
  std::mt19937_64 bits_;
};

using Items = std::vector<std::string>;
using Written =
    std::map<std::string, std::map<std::string, Items>>;  ///< block, key, items

/// A valid configuration with values from the whole of their ranges.
Written random_values(Random& random) {
  Written deck;
  const auto some = [&](const char* block, const char* key, Items items) {
    if (random.one_in(2)) deck[block][key] = std::move(items);
  };
  const auto positive_real = [&] { return real_text(std::abs(random.real()) + 1e-300); };
  const auto positive = [&](std::int64_t most) {
    return std::to_string(random.integer() % most + 1);
  };
  const auto texts = [&](int n) {
    Items items;
    for (int i = 0; i < n; ++i) items.push_back(written(random.text()));
    return items;
  };
  const int layers = 1 + random.below(4);
  Items widths;
  for (int i = 0; i <= layers; ++i)
    widths.push_back(std::to_string(1 + random.below(40)));
  if (random.one_in(20)) {
    for (int i = 0; i < 300; ++i) widths.push_back(positive(1000000));
  }
  widths.back() = std::to_string(1 + random.below(20));
  const bool classes = random.one_in(3);
  if (classes) widths.back() = std::to_string(2 + random.below(20));
  deck["network"]["widths"] = widths;
  const auto per_layer = [&](auto make) {
    Items items;
    const int n = random.one_in(2) ? 1 : static_cast<int>(widths.size()) - 1;
    for (int i = 0; i < n; ++i) items.push_back(make());
    return items;
  };
  some("network", "grid", per_layer([&] { return positive(512); }));
  some("network", "order", per_layer([&] { return positive(5); }));
  some("network", "base",
       per_layer([&] { return random.pick({"silu", "identity", "none"}); }));
  some("network", "grid_low", {"-" + real_text(1 + std::abs(random.real()) / 2)});
  some("network", "grid_high", {real_text(1 + std::abs(random.real()) / 2)});
  some("network", "spline_scale", {random.pick({"folded", "trained"})});
  some("network", "kernels", {random.pick({"auto", "host", "team"})});
  if (classes) deck["optimizer"]["loss"] = {"cross_entropy"};

  deck["run"]["epochs"] = {positive(1000000000)};
  some("run", "steps", {random.one_in(3) ? "none" : "1000000000000"});
  some("run", "seed", {std::to_string(random.integer())});
  some("run", "walltime",
       {random.pick({"none", "1", "59:59", "12:00:00", "99999:00:01"})});
  some("run", "warmup_steps", {std::to_string(random.below(1000))});
  some("run", "precision", {random.pick({"float", "double"})});
  some("job", "name",
       {written("a" + random.pick({"", " #", " \"b\"", "\\", ",", "&<>="}))});

  const std::string source = random.pick({"function", "hdf5", "csv"});
  auto& data = deck["data"];
  data["source"] = {source};
  if (source == "function") {
    data["rows"] = {positive(4294967295)};
    data["expressions"] = texts(classes ? 1 : std::stoi(widths.back()));
    some("data", "noise", {positive_real()});
    some("data", "low", {real_text(-1 - std::abs(random.real()))});
    some("data", "validation", {"0.125"});
  } else {
    data["file"] = texts(1);
    data["inputs"] = texts(1 + random.below(30));
    data["targets"] = texts(1);
    some("data", "row_range", {random.pick({"all", "1:2", ":5", "7:"})});
    some("data", "validation",
         {random.pick({"none", "0.25", "\"0.25\"", "\"none\"", "v"})});
    if (source == "csv")
      some("data", "has_header", {random.pick({"auto", "Yes", "off"})});
  }
  some("data", "replicate_below", {random.pick({"0", "1 KiB", "3MiB", "1025", "5 GiB"})});
  some("data", "shuffle", {random.pick({"TRUE", "no", "1", "oFf"})});

  auto& optimizer = deck["optimizer"];
  optimizer["type"] = {random.pick({"adam", "adamw", "sgd"})};
  some("optimizer", "learning_rate", {positive_real()});
  some("optimizer", "batch", {positive(2147483647)});
  some("optimizer", "clip_norm", {random.one_in(2) ? "off" : positive_real()});
  some("optimizer", "beta1", {"0.8999999999999999"});
  some("optimizer", "momentum", {"0.30000000000000004"});
  for (int n = random.below(5); n > 0; --n) {
    auto& output = deck["output" + positive(9999)];
    if (!output.empty()) continue;
    output["type"] = {random.pick({"prediction", "parameters"})};
    output[random.pick({"dstep", "depoch", "dwall"})] = {positive(1000000)};
    if (random.one_in(2)) output["enabled"] = {random.pick({"yes", "no"})};
  }
  return deck;
}

/// Writes it with blocks in parts, in any order, and every freedom that the grammar has.
std::string random_text(Random& random, const Written& deck) {
  const std::string end = random.one_in(3) ? "\r\n" : "\n";
  const auto blank = [&] { return random.pick({"", "", " ", "\t", "   "}); };
  const auto comment = [&] {
    return random.one_in(4) ? "# a, \"b & <c> = " : std::string();
  };
  std::vector<std::string> parts;
  for (const auto& [block, keys] : deck) {
    const std::string header = blank() + "<" + block + ">" + blank() + comment() + end;
    std::string part = header;
    for (const auto& [key, items] : keys) {
      if (random.one_in(5)) {
        parts.push_back(part);
        part = header;
      }
      part += blank() + key + blank() + "=";
      for (std::size_t i = 0; i < items.size(); ++i) {
        part += blank() + items[i] + blank() + (i + 1 < items.size() ? "," : "");
        if (i + 1 < items.size() && random.one_in(4))
          part += "&" + blank() + comment() + end;
      }
      part += comment() + end + (random.one_in(6) ? blank() + comment() + end : "");
    }
    parts.push_back(part);
  }
  if (random.one_in(3)) parts.push_back("<comment>" + end + "free = \"text & < " + end);
  for (std::size_t i = parts.size(); i > 1; --i)
    std::swap(parts[i - 1],
              parts[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  std::string text = random.one_in(4) ? "\xef\xbb\xbf" : "";
  for (const std::string& part : parts) text += part;
  return text;
}

/// "block/key = value" of everything that the configuration uses.
std::string used_values(const Deck& deck) {
  std::string text;
  for (const auto& [slot, entry] : deck.entries())
    if (use_of(deck, slot) == Use::yes)
      text += slot.text() + " = " + value_text(slot.declared(), entry.value) + "\n";
  return text;
}

/// The printed deck passes -W and resolves to the same values.
void check_round_trip(const Deck& deck) {
  DeckSources printed = sources(resolved_text(deck));
  printed.warnings_are_errors = true;
  const std::string errors = errors_of(printed);
  INFO(printed.deck->text);
  REQUIRE(errors == "");
  const Deck again = resolve_deck(printed);
  std::string changed;
  for (const auto& [slot, entry] : deck.entries())
    if (use_of(deck, slot) == Use::yes && again.entries().at(slot).value != entry.value)
      changed += " " + slot.text();
  REQUIRE(changed == "");
  REQUIRE(used_values(again) == used_values(deck));
}

/// A deck, or errors of code 2 with a place each.
bool check_answer(const DeckSources& given) {
  try {
    const Deck deck = resolve_deck(given);
    check_round_trip(deck);
    network_options(deck);
    train_options(deck);
    output_options(deck);
    data_options(deck);
    return true;
  } catch (const DeckErrors& errors) {
    REQUIRE(errors.code() == kan::Code::usage);
    REQUIRE_FALSE(errors.lines().empty());
    for (const std::string& line : errors.lines()) {
      bool shown_well = line.substr(0, 10) == "input.deck" ||
                        line.substr(0, 12) == "command line" ||
                        line.substr(0, 4) == "and ";
      for (std::size_t at = 0; at < line.size() && shown_well;) {
        const std::size_t size = utf8_size(line, at);
        shown_well = size > 0 && !is_control(line[at]);
        at += size;
      }
      INFO(line);
      REQUIRE(shown_well);
    }
    return false;
  }
}

/// One small change of a text.
std::string mutate(Random& random, std::string text) {
  static const std::vector<std::string> kTokens = {"<",
                                                   ">",
                                                   "=",
                                                   ",",
                                                   "&",
                                                   "#",
                                                   "\"",
                                                   "\\",
                                                   "\n",
                                                   "\r\n",
                                                   " ",
                                                   "\t",
                                                   std::string(1, '\0'),
                                                   "\xff",
                                                   "\xc3",
                                                   "\xef\xbb\xbf",
                                                   "<run>",
                                                   "<output1>",
                                                   "<comment>\n",
                                                   "steps = 5\n",
                                                   "-1",
                                                   "1e999",
                                                   "99999999999999999999",
                                                   "none",
                                                   "&\n",
                                                   "\"\"",
                                                   "nan"};
  const auto place = [&] {
    return static_cast<std::size_t>(random.below(static_cast<int>(text.size()) + 1));
  };
  const std::size_t at = place();
  switch (random.below(6)) {
    case 0:
      return text.insert(at, random.pick(kTokens));
    case 1:
      return text.substr(0, at);
    case 2:
      return text.erase(at, static_cast<std::size_t>(1 + random.below(8)));
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(random.below(256));
      return text;
    case 4: {
      const std::size_t from = place();
      return text.insert(at,
                         text.substr(from, static_cast<std::size_t>(random.below(40))));
    }
    default:
      if (at < text.size()) text.replace(at, 1, random.pick(kTokens));
      return text;
  }
}

}  // namespace

TEST_CASE("a valid deck resolves to what is written, and its printed form to the same") {
  for (int n = 0; n < 1500; ++n) {
    Random random(static_cast<std::uint64_t>(n));
    const Written values = random_values(random);
    const std::string text = random_text(random, values);
    INFO("case " << n << "\n" << text);
    REQUIRE(errors_of(text) == "");
    const Deck deck = resolve(text);
    for (const auto& [block, keys] : values)
      for (const auto& [key, items] : keys) {
        const BlockName name = find_block(block);
        const Slot slot{find_parameter(kBlocks[name.index].name, key), name.number};
        std::vector<Item> expected;
        for (const std::string& item : items) {
          std::size_t i = 0;
          expected.emplace_back();
          const std::string problem = item[0] == '"'
                                          ? read_quoted(item, i, expected.back())
                                          : read_bare(item, i, expected.back());
          REQUIRE(problem == "");
        }
        REQUIRE(
            (deck.entries().at(slot).value == parse_value(slot.declared(), expected)));
      }
    check_round_trip(deck);
  }
}

TEST_CASE("a text is written so that it is read back") {
  Random random(7);
  for (int n = 0; n < 20'000; ++n) {
    const std::string text = random.text();
    const std::string form = written(text);
    Item item;
    std::size_t i = 0;
    const std::string problem =
        form[0] == '"' ? read_quoted(form, i, item) : read_bare(form, i, item);
    INFO(form);
    REQUIRE(problem == "");
    REQUIRE(i == form.size());
    REQUIRE(item.text == text);
  }
}

TEST_CASE("changed decks are answered with a deck or with errors") {
  int good = 0, bad = 0;
  for (int n = 0; n < 20'000; ++n) {
    Random random(static_cast<std::uint64_t>(1'000'000 + n));
    static std::string text;
    if (n % 40 == 0) text = random_text(random, random_values(random));
    std::string changed = text;
    for (int changes = 1 + random.below(3); changes > 0; --changes)
      changed = mutate(random, std::move(changed));
    INFO("case " << n << "\n" << changed);
    (check_answer(sources(changed)) ? good : bad) += 1;
  }
  // Both sides of the property are met.
  CHECK(good > 1000);
  CHECK(bad > 1000);
}

TEST_CASE("random bytes and random tokens are answered with errors") {
  static const std::vector<std::string> kTokens = {
      "<",           ">",           "=",    ",",      "&",        "#",
      "\"",          "\\",          "\n",   "\n",     "\r",       " ",
      "\t",          "a",           "9",    "_",      "<run>\n",  "<data>\n",
      "<network>\n", "<comment>\n", "seed", "widths", "\xc3\xb6", "\xc3"};
  for (int n = 0; n < 20'000; ++n) {
    Random random(static_cast<std::uint64_t>(2'000'000 + n));
    std::string text;
    for (int size = random.below(60); size > 0; --size)
      text += n % 2 == 0 ? random.pick(kTokens)
                         : std::string(1, static_cast<char>(random.below(256)));
    INFO("case " << n);
    REQUIRE_FALSE(check_answer(sources(text)));
  }
}

TEST_CASE("random overrides are answered with a deck or with errors") {
  for (int n = 0; n < 20'000; ++n) {
    Random random(static_cast<std::uint64_t>(3'000'000 + n));
    std::vector<std::string> overrides;
    for (int count = 1 + random.below(3); count > 0; --count) {
      const auto& parameter =
          kParameters[random.below(static_cast<int>(std::size(kParameters)))];
      std::string text =
          block_text(parameter.block, parameter.block == "output" ? 3 : 0) + "/" +
          std::string(parameter.name) + "=" +
          random.pick({"1", "0.5", "a", "2, 4, 1", "\"", "on", "none", "adam", "1:30",
                       random.text()});
      overrides.push_back(random.one_in(4) ? mutate(random, std::move(text)) : text);
    }
    INFO("case " << n << " " << overrides[0]);
    check_answer(sources(kGood, overrides));
  }
}
