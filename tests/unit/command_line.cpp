// The command line: what is a flag, an operand, the deck, an override, Kokkos' own.
#include "io/command_line.hpp"

#include <catch2/catch_test_macros.hpp>

#include "io/deck_errors.hpp"

using kan::io::command_line_help;
using kan::io::CommandLine;
using kan::io::DeckErrors;
using kan::io::parse_command_line;

namespace {

CommandLine parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kan_driver");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

std::vector<std::string> errors_of(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
  } catch (const DeckErrors& errors) {
    CHECK(errors.code() == kan::Code::usage);
    for (const std::string& line : errors.lines())
      CHECK(line.substr(0, 14) == "command line: ");
    return errors.lines();
  }
  return {};
}

bool has_error(const std::vector<const char*>& arguments, const std::string& part) {
  const auto lines = errors_of(arguments);
  return lines.size() == 1 && lines[0].find(part) != std::string::npos;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a deck, overrides and flags in any order") {
  const CommandLine line =
      parse({"optimizer/learning_rate=0.1", "-d", "runs/lr=0.1", "-W", "input.deck", "-q",
             "data/expressions=\"pow(x, 2)\", [y]", "--kokkos-num-threads=4", "-r",
             "latest", "--kokkos-map-device-id-by=mpi_rank"});
  CHECK(line.action == CommandLine::Action::run);
  CHECK(line.deck == "input.deck");
  CHECK(line.directory == "runs/lr=0.1");
  CHECK(line.restart == "latest");
  CHECK(line.overrides ==
        Texts{"optimizer/learning_rate=0.1", "data/expressions=\"pow(x, 2)\", [y]"});
  CHECK(line.kokkos ==
        Texts{"--kokkos-num-threads=4", "--kokkos-map-device-id-by=mpi_rank"});
  CHECK(line.warnings_are_errors);
  CHECK(line.quiet);
  CHECK_FALSE(line.force);
  CHECK(parse({"input.deck", "--force"}).force);

  const CommandLine plain = parse({"input.deck"});
  CHECK(plain.directory == ".");
  CHECK(plain.restart.empty());
  CHECK(plain.overrides.empty());
  CHECK_FALSE(plain.warnings_are_errors);
  CHECK_FALSE(plain.quiet);
  CHECK_FALSE(plain.force);
}

TEST_CASE("decks with unusual names") {
  CHECK(parse({"-i", "runs/lr=0.1"}).deck == "runs/lr=0.1");
  CHECK(parse({"-i", "a=b"}).deck == "a=b");
  CHECK(parse({"[a,b]"}).deck == "[a,b]");
  CHECK(parse({"{}"}).deck == "{}");
  CHECK(parse({"--", "-n"}).deck == "-n");
  CHECK(parse({"my deck.txt"}).deck == "my deck.txt");
  CHECK(parse({"-r", "auto"}).deck.empty());
}

TEST_CASE("a wall limit is run/walltime, ahead of the overrides") {
  CHECK(parse({"a", "run/walltime=5", "-t", "1:30:00"}).overrides ==
        Texts{"run/walltime=1:30:00", "run/walltime=5"});
  CHECK(has_error({"a", "-t", "1:99"}, "-t 1:99: a duration is expected"));
  CHECK(has_error({"a", "-t", "soon"}, "-t soon: a duration is expected"));
}

TEST_CASE("what is answered without a run") {
  CHECK(parse({"-n", "a"}).action == CommandLine::Action::check);
  CHECK(parse({"-n", "-r", "x.rst.h5"}).action == CommandLine::Action::check);
  CHECK(parse({"-p"}).action == CommandLine::Action::list);
  CHECK(parse({"-c"}).action == CommandLine::Action::configuration);
  CHECK(parse({"--version"}).action == CommandLine::Action::version);
  CHECK(parse({"-h"}).action == CommandLine::Action::help);
  CHECK(parse({"--help", "a", "b"}).action == CommandLine::Action::help);
  CHECK(parse({"-n", "-p"}).action == CommandLine::Action::list);
  CHECK(parse({"-nW", "a"}).warnings_are_errors);
}

TEST_CASE("mistakes are answered with what to do") {
  CHECK(has_error({"a", "optimizer.lr=0.1"}, "joined by a slash: optimizer/lr=0.1"));
  CHECK(has_error({}, "no deck is given: kan_driver [flags] DECK"));
  CHECK(has_error({"-n"}, "no deck is given"));
  CHECK(has_error({"optimizer/lr=0.1"}, "no deck is given"));
  CHECK(has_error({"a", "b"}, "'b': the deck is 'a' already"));
  CHECK(has_error({"-i", "a", "b"}, "'b': the deck is 'a' already"));
  CHECK(has_error({"a", "lr=3"}, "'lr=3' is not block/key=value"));
  CHECK(has_error({"a", "1a/b=3"}, "'1a/b=3' is not block/key=value"));
  CHECK(has_error({"a", "--forse"}, "did you mean '--force'?"));
  CHECK(has_error({"a", "--force", "-r", "auto"}, "give one of the two"));
  CHECK(has_error({"a", "-x"}, "unknown flag '-x'"));
  CHECK(has_error({"a", "--kokos-num-threads=4"}, "unknown flag"));
  CHECK(has_error({"a", ""}, "an argument is empty"));
  CHECK(has_error({"a", "-d"}, "-d"));
  CHECK(has_error({"a", "-d", "b", "-d", "c"}, "-d"));
  CHECK(errors_of({"a", "b", "-x", "c=d", "-t", "x"}).size() == 4);
}

TEST_CASE("the help names every flag") {
  const std::string help = command_line_help();
  for (const char* flag : {"-i DECK", "-r FILE|latest|auto", "-d DIR", "-t TIME", "-n ",
                           "-p ", "-c ", "-W ", "-q ", "-h,--help", "--version",
                           "--force", "block/key=value", "--kokkos-", "75 "}) {
    INFO(flag);
    CHECK(help.find(flag) != std::string::npos);
  }
}
