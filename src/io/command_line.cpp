// Flags go through CLI11; what it leaves over is sorted here into deck, overrides,
// arguments for Kokkos and mistakes.
#include "io/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "io/deck_errors.hpp"
#include "io/deck_values.hpp"
#include "io/text.hpp"

namespace kan::io {

namespace {

constexpr const char* kUsage =
    "kan_driver [flags] DECK [block/key=value ...] [--kokkos-...]";

constexpr const char* kFooter = R"(
DECK is the input deck (docs/deck.md; -p lists its keys). block/key=value replaces or adds
one value of it. --kokkos-... arguments go to Kokkos (--kokkos-help lists them).

Examples
  kan_driver input.deck
  kan_driver input.deck optimizer/learning_rate=0.01 run/epochs=40
  kan_driver -n input.deck                 check the deck and print it in full
  kan_driver -r latest -d runs/a           go on from the newest checkpoint in runs/a
  mpirun -n 4 kan_driver -r auto -t 1:50:00 input.deck

Exit codes: 0 done; 2 deck or usage; 3 input data; 4 output; 5 checkpoint;
6 communication; 7 numerical; 8 device or memory; 9 launch environment or lock;
75 stopped by a limit or a signal with a good state to go on from.)";

/// Where CLI11 puts what it reads.
struct Flags {
  CommandLine line;
  std::string time;
  bool check = false, list = false, configuration = false, version = false;
};

void declare(CLI::App& app, Flags& flags) {
  CommandLine& line = flags.line;
  app.usage(std::string("Usage: ") + kUsage);
  app.footer(kFooter);
  app.set_help_flag("-h,--help", "print this help");
  app.add_option("-i", line.deck, "the deck, where its name looks like an override")
      ->type_name("DECK");
  app.add_option("-r", line.restart,
                 "go on from a checkpoint: a file; latest: the newest good\n"
                 "one in DIR; auto: the same, or a new run where there is none")
      ->type_name("FILE|latest|auto");
  app.add_option("-d", line.directory, "run directory, made where it does not exist [.]")
      ->type_name("DIR");
  app.add_option("-t", flags.time,
                 "wall limit, [[hours:]minutes:]seconds: stop before it, with\n"
                 "a checkpoint")
      ->type_name("TIME");
  app.add_flag("-n", flags.check, "check the deck, print it with all values, and end");
  app.add_flag("-p", flags.list, "print the parameters of the deck, and end");
  app.add_flag("-c", flags.configuration, "print version and configuration, and end");
  app.add_flag("--version", flags.version, "print the version, and end");
  app.add_flag("-W", line.warnings_are_errors, "warnings are errors");
  app.add_flag("-q", line.quiet, "print errors only");
  app.add_flag("--force", line.force, "replace the results of an earlier run in DIR");
  app.allow_extras();
}

constexpr std::string_view kLongFlags[] = {"--help", "--version", "--force"};

class Sorter {
 public:
  Sorter(CommandLine& line, ErrorList& errors) : line_(line), errors_(errors) {}

  void take(const std::string& argument) {
    const std::string_view text = argument;
    if (text == "--" && !only_names_) {
      only_names_ = true;
    } else if (!only_names_ && text.substr(0, 9) == "--kokkos-") {
      line_.kokkos.push_back(argument);
    } else if (!only_names_ && text.size() > 1 && text[0] == '-') {
      fail("unknown flag '" + shown(text) + "'" +
           did_you_mean(text, {std::begin(kLongFlags), std::end(kLongFlags)}) +
           "; -h lists the flags");
    } else if (joined_by(text, '/')) {
      line_.overrides.push_back(argument);
    } else if (joined_by(text, '.')) {
      std::string slashed = argument;
      slashed[slashed.find('.')] = '/';
      fail("'" + shown(text) +
           "': block and key are joined by a slash: " + shown(slashed));
    } else if (text.find('=') != std::string_view::npos) {
      fail("'" + shown(text) +
           "' is not block/key=value; a deck of this name is given with -i");
    } else if (text.empty()) {
      fail("an argument is empty");
    } else if (!line_.deck.empty()) {
      fail("'" + shown(text) + "': the deck is '" + shown(line_.deck) +
           "' already, and this is not block/key=value");
    } else {
      line_.deck = argument;
    }
  }

 private:
  /// ident SEPARATOR ident "=" at the start.
  static bool joined_by(std::string_view text, char separator) {
    const std::size_t block = ident_size(text);
    if (block == 0 || block >= text.size() || text[block] != separator) return false;
    const std::string_view rest = text.substr(block + 1);
    const std::size_t key = ident_size(rest);
    return key > 0 && key < rest.size() && rest[key] == '=';
  }

  void fail(const std::string& message) { errors_.add({"command line"}, message); }

  CommandLine& line_;
  ErrorList& errors_;
  bool only_names_ = false;  ///< after "--" nothing is a flag
};

CommandLine::Action action_of(const Flags& flags) {
  if (flags.version) return CommandLine::Action::version;
  if (flags.configuration) return CommandLine::Action::configuration;
  if (flags.list) return CommandLine::Action::list;
  return flags.check ? CommandLine::Action::check : CommandLine::Action::run;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app;
  Flags flags;
  flags.line.arguments.assign(argv + std::min(argc, 1), argv + argc);
  declare(app, flags);
  ErrorList errors;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    flags.line.action = CommandLine::Action::help;
    return flags.line;
  } catch (const CLI::ParseError& bad) {
    errors.add({"command line"}, shown(bad.what(), 200) + "; -h shows how it is used");
    errors.raise();
  }
  if (!flags.time.empty()) {
    try {
      parse_duration(flags.time);
      flags.line.overrides.push_back("run/walltime=" + flags.time);
    } catch (const BadValue& bad) {
      errors.add({"command line"}, "-t " + shown(flags.time) + ": " + bad.what());
    }
  }
  Sorter sorter(flags.line, errors);
  for (const std::string& argument : app.remaining()) sorter.take(argument);
  flags.line.action = action_of(flags);
  const bool needs_deck = flags.line.action == CommandLine::Action::run ||
                          flags.line.action == CommandLine::Action::check;
  if (needs_deck && flags.line.deck.empty() && flags.line.restart.empty())
    errors.add({"command line"}, std::string("no deck is given: ") + kUsage);
  if (flags.line.force && !flags.line.restart.empty())
    errors.add({"command line"},
               "--force removes results, -r goes on from them: give one of the two");
  errors.raise();
  return flags.line;
}

std::string command_line_help() {
  CLI::App app;
  Flags flags;
  declare(app, flags);
  return app.help();
}

}  // namespace kan::io
