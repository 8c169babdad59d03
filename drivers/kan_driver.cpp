// kan_driver: reads a deck and runs it. What can be answered without ranks and devices is
// answered before MPI and Kokkos start, so that it works on a login node.
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "io/command_line.hpp"
#include "io/deck.hpp"
#include "io/info.hpp"
#include "io/options.hpp"
#include "io/parameters.hpp"
#include "kan/error.hpp"
#include "kan/shape.hpp"
#include "parallel/launch.hpp"
#include "parallel/signals.hpp"
#include "run/banner.hpp"
#include "run/session.hpp"

namespace {

using Action = kan::io::CommandLine::Action;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// -n: the deck with all values, itself a deck; its notes go to stderr.
int check(const kan::io::CommandLine& command) {
  const kan::run::Inputs inputs = kan::run::read_inputs(command);
  const kan::io::Deck deck = kan::io::resolve_deck(inputs.sources);
  const kan::Shape shape(kan::io::network_options(deck));
  print(kan::io::resolved_text(deck));
  print("# parameters: " + std::to_string(shape.parameters()) + " trained, " +
        std::to_string(shape.parameters_pykan()) + " as PyKAN counts them\n");
  for (const std::string& note : inputs.notes)
    std::fprintf(stderr, "kan_driver: note: %s\n", note.c_str());
  for (const auto& note : deck.notes())
    std::fprintf(stderr, "kan_driver: note: %s\n", note.text().c_str());
  return 0;
}

int drive(int argc, char** argv) {
  const kan::io::CommandLine command = kan::io::parse_command_line(argc, argv);
  switch (command.action) {
    case Action::help:
      return print(kan::io::command_line_help()), 0;
    case Action::version:
      return print("kan_driver " + kan::io::code_version() + "\n"), 0;
    case Action::configuration:
      return print(kan::run::configuration()), 0;
    case Action::list:
      return print(kan::io::parameter_list()), 0;
    case Action::check:
      return check(command);
    case Action::run:
      break;
  }
  // From here on a signal is a request to save and stop; a closed screen ends nothing.
  const kan::parallel::SignalHandlers handlers;
  std::signal(SIGPIPE, SIG_IGN);
  kan::parallel::Launch launch;
  return kan::run::run(command, launch);
}

}  // namespace

int main(int argc, char** argv) {
  using kan::Code;
  using kan::Error;
  try {
    return drive(argc, argv);
  } catch (const Error& error) {
    return kan::parallel::fail("kan_driver", error);
  } catch (const std::bad_alloc&) {
    return kan::parallel::fail("kan_driver",
                               Error(Code::device,
                                     "out of memory: use fewer rows or a smaller "
                                     "network, or more memory per rank"));
  } catch (const std::exception& error) {
    return kan::parallel::fail(
        "kan_driver", Error(Code::device, std::string("failed: ") + error.what()));
  }
}
