// What every run has, whatever it does: the command line, the resolved deck, ranks, the
// log, the run directory and the checkpoint to go on from. Made once by open_session();
// train.hpp and evaluate.hpp do the work.
//
// Rank 0 reads the deck and the checkpoint's header and broadcasts the text; all ranks
// resolve the same bytes. Where parallel/ranks is less than there are, the session of the
// others has no communicator, and they sleep. Rank 0 of those that work alone has a log
// and a run directory.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "io/command_line.hpp"
#include "io/deck.hpp"
#include "io/info.hpp"
#include "io/log.hpp"
#include "io/run_directory.hpp"
#include "parallel/communicator.hpp"
#include "parallel/device_map.hpp"
#include "parallel/launch.hpp"
#include "parallel/notice_board.hpp"

namespace kan::run {

/// What is read before a deck can be resolved.
struct Inputs {
  io::DeckSources sources;
  std::string checkpoint;  ///< path, empty: from the start
  /// With -r latest or auto: the name looked for, and the checkpoint with the highest
  /// number that was there then, good or bad.
  std::string name, newest;
  std::vector<std::string> notes;  ///< for the log
};

/// Reads the deck and finds the checkpoint that the command line asks for.
Inputs read_inputs(const io::CommandLine& command);

struct Session {
  const io::CommandLine& command;
  parallel::Launch& launch;
  std::chrono::steady_clock::time_point start;
  io::Deck deck;
  std::string checkpoint;        ///< path, empty: from the start
  io::DeckSources sources;       ///< what the deck was resolved from
  std::unique_ptr<io::Log> log;  ///< says nothing on ranks other than 0
  std::unique_ptr<parallel::Communicator> world = {};  ///< where some ranks do not work
  std::unique_ptr<parallel::NoticeBoard> board = {};   ///< as world
  /// Of the ranks that work; none on a rank that does not.
  std::unique_ptr<parallel::Communicator> communicator = {};
  std::vector<parallel::RankPlace> places = {};  ///< of all ranks
  std::string communication = {};                ///< the choice in words
  std::string ranks = {};                        ///< how many work, and where, in words
  int local_ranks = 1;                           ///< that work on this node
  io::RunInfo info = {};
  std::unique_ptr<io::RunDirectory> directory = {};  ///< rank 0

  bool root() const { return communicator && communicator->rank() == 0; }
  /// Deck, checkpoint and data are good: what --force replaces is removed now.
  void begin_results();
  /// Puts an error into the log.
  void record(const std::string& error) noexcept;
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
        .count();
  }
};

/// The deck that files keep: without the time limit given to this launch alone, and with
/// the names of the columns that a CSV file's header gave, so that another file's columns
/// are found by name. input_names: empty where they are not to be added.
std::string kept_deck(const io::Deck& deck, io::DeckSources sources,
                      const std::vector<std::string>& input_names);

/// Starts Kokkos; needs MPI started. The session must end before the launch does.
std::unique_ptr<Session> open_session(const io::CommandLine& command,
                                      parallel::Launch& launch);

/// The whole run: session, training or evaluation. Returns the exit code.
int run(const io::CommandLine& command, parallel::Launch& launch);

}  // namespace kan::run
