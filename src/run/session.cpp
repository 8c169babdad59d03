#include "run/session.hpp"

#include <exception>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "io/checkpoint_files.hpp"
#include "io/options.hpp"
#include "parallel/groups.hpp"
#include "parallel/signals.hpp"
#include "run/evaluate.hpp"
#include "run/start_checks.hpp"
#include "run/train.hpp"

namespace kan::run {
namespace {

// Name of the job whose checkpoints are looked for: from the deck, or, where only a
// directory is given, the one name that has checkpoints there.
std::string job_name(const io::CommandLine& command, const io::DeckSources& sources) {
  if (sources.deck) {
    try {
      return io::resolve_deck(sources).get(io::key::job_name);
    } catch (const Error&) {
      // Incomplete without the checkpoint's deck, or wrong: reported when all is known.
      return std::filesystem::path(sources.deck->name).stem().string();
    }
  }
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(command.directory, error)) {
    const std::string file = entry.path().filename().string();
    const std::size_t end = file.rfind(".rst.h5");
    const std::size_t dot = end == std::string::npos ? end : file.rfind('.', end - 1);
    if (dot != std::string::npos && dot > 0) names.insert(file.substr(0, dot));
  }
  if (names.size() == 1) return *names.begin();
  if (names.empty())
    throw Error(Code::checkpoint, "-r " + command.restart + ": no checkpoint in '" +
                                      command.directory +
                                      "'; name the directory with -d, or give a deck");
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  throw Error(Code::checkpoint, "-r " + command.restart + ": several jobs in '" +
                                    command.directory + "' (" + list +
                                    "); give the deck, or the checkpoint file");
}

std::string newest_checkpoint(const std::string& directory, const std::string& name) {
  std::error_code error;
  if (name.empty() || !std::filesystem::is_directory(directory, error)) return {};
  const auto files =
      io::numbered_files(directory, name, ".", ".rst.h5", Code::checkpoint);
  return files.empty() ? std::string() : files.back().second;
}

void broadcast(parallel::Communicator& communicator, std::vector<std::string>& texts) {
  std::int64_t count = std::int64_t(texts.size());
  communicator.broadcast(std::span<std::int64_t>(&count, 1));
  texts.resize(count);
  for (std::string& text : texts) communicator.broadcast(text);
}

// Rank 0's inputs to all.
void broadcast(parallel::Communicator& communicator, Inputs& inputs) {
  for (std::optional<io::DeckText>* text :
       {&inputs.sources.restart, &inputs.sources.deck}) {
    std::int64_t given = text->has_value();
    communicator.broadcast(std::span<std::int64_t>(&given, 1));
    if (!given) continue;
    if (!*text) text->emplace();
    communicator.broadcast((*text)->name);
    communicator.broadcast((*text)->text);
    communicator.broadcast((*text)->directory);
  }
  broadcast(communicator, inputs.sources.overrides);
  communicator.broadcast(inputs.sources.directory);
  for (std::string* text : {&inputs.checkpoint, &inputs.name, &inputs.newest})
    communicator.broadcast(*text);
  broadcast(communicator, inputs.notes);
}

// Which ranks work, from the deck and the nodes of the job.
void choose_ranks(Session& s, const parallel::CommunicatorOptions& options) {
  const int all = s.launch.ranks();
  const int wanted = int(s.deck.find(io::key::parallel_ranks).value_or(all));
  const parallel::Placement placement = s.deck.get(io::key::parallel_placement);
  const int per_node = int(s.deck.find(io::key::parallel_ranks_per_node).value_or(0));
  const std::vector<int> node_of =
      per_node > 0 ? parallel::emulated_nodes(all, per_node) : s.launch.node_of();
  const parallel::GroupPlan plan =
      parallel::plan_groups(node_of, std::vector{wanted}, placement);
  const parallel::RankGroup& group = plan.groups.front();

  s.communicator = parallel::make_communicator(options, &s.communication);
  s.ranks = fmt::format("{}{} on {} {}node{}", wanted,
                        plan.idle.empty() ? "" : fmt::format(" of {}", all), group.nodes,
                        per_node > 0 ? "emulated " : "", group.nodes == 1 ? "" : "s");
  s.local_ranks = 0;
  for (const int rank : group.ranks)
    s.local_ranks += s.launch.node_of()[rank] == s.launch.node_of()[s.launch.rank()];
  if (plan.idle.empty()) return;
  s.ranks += fmt::format(", {}; {} asleep",
                         placement == parallel::Placement::packed ? "packed" : "spread",
                         plan.idle.size());
  s.world = std::move(s.communicator);
  s.communicator = parallel::split(*s.world, plan);
  s.board = std::make_unique<parallel::NoticeBoard>(plan.leaders());
  if (s.communicator)
    s.communication = fmt::format("{}: {} rank{}", s.communicator->name(), wanted,
                                  wanted == 1 ? "" : "s");
}

int work(Session& session) {
  const bool single = session.deck.get(io::key::run_precision) == io::Precision::float_;
  try {
    if (session.deck.get(io::key::run_mode) == io::Mode::evaluate)
      return single ? evaluate<float>(session) : evaluate<double>(session);
    return single ? train<float>(session) : train<double>(session);
  } catch (const std::exception& error) {
    session.record(error.what());
    throw;
  }
}

parallel::StopFlags own_signals() {
  const parallel::SignalFlags seen = parallel::take_signals();
  parallel::StopFlags flags;
  flags.signal_stop = seen.stop;
  flags.signal_checkpoint = seen.checkpoint;
  return flags;
}

}  // namespace

std::string kept_deck(const io::Deck& deck, io::DeckSources sources,
                      const std::vector<std::string>& input_names) {
  const auto is_limit = [](const std::string& text) {
    return text.starts_with("run/walltime=");
  };
  bool changed = std::erase_if(sources.overrides, is_limit) > 0;
  if (!input_names.empty()) {
    std::string list;
    for (const std::string& name : input_names) {
      list += list.empty() ? "\"" : ",\"";
      for (const char c : name)
        list += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
      list += '"';
    }
    sources.overrides.push_back("data/inputs=" + list);
    changed = true;
  }
  sources.warnings_are_errors = false;
  return io::resolved_text(changed ? io::resolve_deck(sources) : deck);
}

Inputs read_inputs(const io::CommandLine& command) {
  Inputs inputs;
  inputs.sources.overrides = command.overrides;
  inputs.sources.warnings_are_errors = command.warnings_are_errors;
  const std::filesystem::path here = std::filesystem::current_path();
  inputs.sources.directory = here.string();
  if (!command.deck.empty())
    inputs.sources.deck = io::DeckText{command.deck, io::read_deck(command.deck),
                                       (here / command.deck).parent_path().string()};
  if (command.restart.empty()) return inputs;
  const bool by_name = command.restart == "latest" || command.restart == "auto";
  if (by_name) inputs.name = job_name(command, inputs.sources);
  inputs.newest = newest_checkpoint(command.directory, inputs.name);
  io::FoundCheckpoint found =
      io::find_checkpoint(command.directory, inputs.name, command.restart);
  inputs.notes = std::move(found.notes);
  if (found.exists()) {
    inputs.checkpoint = found.header.path;
    inputs.sources.restart = io::DeckText{found.header.path, found.header.deck, {}};
  }
  return inputs;
}

void Session::begin_results() {
  if (!root() || !command.force) return;
  directory->clear();
  log->open(directory->path(".log"), false);
}

void Session::record(const std::string& error) noexcept {
  try {
    // The log of results that were to be replaced and are left: ours goes after it.
    if (root() && !log->is_open()) log->open(directory->path(".log"), true);
    log->error(error);
  } catch (const std::exception&) {
    // The first error is the one to report.
  }
}

std::unique_ptr<Session> open_session(const io::CommandLine& command,
                                      parallel::Launch& launch) {
  const auto start = std::chrono::steady_clock::now();
  const auto bootstrap = parallel::make_communicator();
  check_command_line(*bootstrap, command);
  Inputs inputs;
  if (launch.rank() == 0) inputs = read_inputs(command);
  broadcast(*bootstrap, inputs);
  auto session =
      std::unique_ptr<Session>(new Session{.command = command,
                                           .launch = launch,
                                           .start = start,
                                           .deck = io::resolve_deck(inputs.sources),
                                           .checkpoint = inputs.checkpoint,
                                           .sources = inputs.sources,
                                           .log = std::make_unique<io::Log>()});
  Session& s = *session;
  const io::Deck& deck = s.deck;
  const bool evaluating = deck.get(io::key::run_mode) == io::Mode::evaluate;
  if (evaluating && s.checkpoint.empty())
    throw Error(
        Code::usage,
        "run/mode = evaluate needs a trained network: name its checkpoint with -r");

  const std::vector<std::string> warnings =
      check_program(*bootstrap, launch, deck.get(io::key::parallel_reproducible));
  launch.start_kokkos(int(deck.find(io::key::run_threads).value_or(0)), command.kokkos);
  parallel::CommunicatorOptions options;
  options.backend = deck.word(io::key::parallel_backend);
  options.timeout = double(deck.get(io::key::parallel_timeout));
  options.gpu_aware = deck.get(io::key::parallel_gpu_aware);
  choose_ranks(s, options);
  if (!s.communicator) return session;

  s.places = s.communicator->allgather(parallel::this_place(launch));
  s.info.mpi = launch.mpi_version();
  s.info.ranks = s.communicator->size();
  s.info.threads = launch.threads();
  s.info.training = !s.communicator->silent();
  s.info.precision = deck.word(io::key::run_precision);
  s.info.deck = kept_deck(deck, s.sources, {});
  if (!s.root()) return session;

  using Screen = io::Log::Screen;
  // Launchers of several ranks show them a terminal that need not be one.
  const Screen screen = s.communicator->size() > 1 ? Screen::plain : Screen::automatic;
  s.log = std::make_unique<io::Log>(command.quiet ? Screen::quiet : screen);
  const io::Existing existing = command.force              ? io::Existing::replace
                                : !command.restart.empty() ? io::Existing::restart
                                                           : io::Existing::refuse;
  // An evaluation has files of its own beside those of the training.
  const std::string name =
      deck.get(io::key::job_name) + (evaluating ? ".evaluation" : "");
  s.directory = std::make_unique<io::RunDirectory>(command.directory, name, existing);
  if (!inputs.name.empty() && !evaluating &&
      newest_checkpoint(command.directory, inputs.name) != inputs.newest)
    throw Error(
        Code::launch,
        fmt::format("-r {}: another run has changed the checkpoints in '{}' while "
                    "this one started; start it again",
                    command.restart, command.directory));
  if (!command.force)
    s.log->open(s.directory->path(".log"), existing == io::Existing::restart);
  for (const std::string& warning : warnings) s.log->warning(warning);
  for (const std::string& note : inputs.notes) s.log->note(note);
  if (!s.info.training)
    s.log->warning(
        "parallel/backend = null: ranks do not add up their gradients; this run "
        "measures, it trains nothing");
  for (const std::string& note : s.directory->notes()) s.log->note(note);
  for (const std::string& note : launch.notes()) s.log->note(note);
  const std::string shared = parallel::sharing_note(s.places);
  if (!shared.empty()) s.log->note(shared);
  for (const io::Deck::Note& note : deck.notes()) s.log->note(note.text());
  return session;
}

int run(const io::CommandLine& command, parallel::Launch& launch) {
  const std::unique_ptr<Session> session = open_session(command, launch);
  std::int64_t code = session->communicator ? work(*session) : 0;
  if (session->board) {
    const double limit = double(session->deck.get(io::key::parallel_timeout));
    session->board->wait_for_all(own_signals, session->communicator ? limit : 0);
    session->world->allreduce_max(std::span<std::int64_t>(&code, 1));
  }
  return int(code);
}

}  // namespace kan::run
