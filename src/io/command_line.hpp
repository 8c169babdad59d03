// The command line of kan_driver:
//
//   kan_driver [flags] DECK [block/key=value ...] [--kokkos-...]
//
// An argument of the form ident/ident= that is not the operand of a flag is an override;
// --kokkos-... is left to Kokkos. Nothing here starts MPI or Kokkos, so that help, checks
// and lists are answered on any machine.
#pragma once

#include <string>
#include <vector>

namespace kan::io {

struct CommandLine {
  /// What to do; if several are asked for, the last of this list.
  enum class Action { run, check, list, configuration, version, help };

  Action action = Action::run;
  std::string deck;                    ///< path; empty: the deck stored in the restart
  std::string restart;                 ///< path, "latest" or "auto"; empty: a new run
  std::string directory = ".";         ///< run directory
  std::vector<std::string> overrides;  ///< in order; -t TIME is run/walltime=TIME, first
  std::vector<std::string> kokkos;     ///< arguments for Kokkos, in order
  std::vector<std::string> arguments;  ///< all, as they were given
  bool warnings_are_errors = false;
  bool quiet = false;
  bool force = false;
};

/// Throws DeckErrors (code 2) that lists everything wrong with the arguments.
CommandLine parse_command_line(int argc, const char* const* argv);

/// What -h prints.
std::string command_line_help();

}  // namespace kan::io
