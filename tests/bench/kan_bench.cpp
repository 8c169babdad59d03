// Training steps of a table of models against the limits of the machine, in one run: the
// loops that measure the machine and all cases take turns, round after round, so that a
// slow moment of the machine hits all of them alike.
//
//   kan_bench [--match TEXT[,TEXT...]] [--rounds 9] [--seconds 0.1] [--kernels auto]
//             [--engine auto] [--batches N] [--json FILE] [--kokkos-num-threads=N]
//   kan_bench --match NAME --steps N       only that: N updates of the cases, not timed,
//                                          as a profiler wants it
//   kan_bench --serve NAME                 one case: a line about it, then for each line
//                                          N of standard input N updates and their time;
//                                          answers are JSON, for peers.py and threads.py
//   kan_bench --list                       names of all cases
//
// --match: cases with a TEXT in their names, or of that very name. --batches: of the
// rows; 64 MiB else.
//
// A case is a whole update: gather, forward, loss, backward, sum over threads, optimizer,
// with history and phases on. ns: of one (sample x edge), best and median over rounds, of
// CPU time with one thread, else of wall time. peak: FMA rate of the case
// (bench_cases.hpp) over that of the widest vectors from L1. outside: time outside of
// kernels. MiB: what the first updates added to the peak memory; freed memory of earlier
// cases is used again, so a figure to keep wants a process of its own. bar, scaled: bars
// hold for a core of 94 GFLOP/s and are scaled by the rate of this one, best of the
// rounds, by 1.5 at most. ratio: to another case, median over rounds of the quotients.
// Exit status 0, or that of the error.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/bench_machine.hpp"
#include "bench/bench_training.hpp"
#include "kan/error.hpp"
#include "kan/simd.hpp"
#include "parallel/communicator.hpp"
#include "parallel/launch.hpp"
#include "parallel/memory.hpp"

namespace {

using namespace kan;
using namespace kan::bench;

struct Arguments {
  std::vector<std::string> match, kokkos;
  int rounds = 9, steps = 0;
  double seconds = 0.1;
  How how;
  std::string json, serve;
  bool list = false;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t k = 0; k < words.size(); ++k) {
    const std::string& word = words[k];
    const auto value = [&]() -> const std::string& {
      if (k + 1 == words.size()) throw Error(Code::usage, word + " wants a value");
      return words[++k];
    };
    if (word.starts_with("--kokkos-")) {
      a.kokkos.push_back(word);
    } else if (word == "--list") {
      a.list = true;
    } else if (word == "--match") {
      std::string rest = value();
      for (std::size_t at; !rest.empty(); rest.erase(0, at + 1)) {
        at = std::min(rest.find(','), rest.size() - 1);
        a.match.push_back(rest.substr(0, rest.find(',')));
      }
    } else if (word == "--rounds") {
      a.rounds = std::stoi(value());
    } else if (word == "--steps") {
      a.steps = std::stoi(value());
    } else if (word == "--batches") {
      a.how.batches = std::stoi(value());
    } else if (word == "--seconds") {
      a.seconds = std::stod(value());
    } else if (word == "--json") {
      a.json = value();
    } else if (word == "--serve") {
      a.serve = value();
    } else if (word == "--kernels") {
      const std::string& form = value();
      a.how.kernels = form == "host"   ? Kernels::host
                      : form == "team" ? Kernels::team
                                       : Kernels::automatic;
    } else if (word == "--engine") {
      const std::string& kind = value();
      a.how.engine = kind == "layer"  ? EngineKind::layer
                     : kind == "tile" ? EngineKind::tile
                                      : EngineKind::automatic;
    } else {
      throw Error(Code::usage, "kan_bench: " + word + " is not known");
    }
  }
  return a;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double best(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

struct Machine {
  std::vector<double> bars, single, twice;
  void round() {
    bars.push_back(fma_rate_bars());
    single.push_back(fma_rate<float>());
    twice.push_back(fma_rate<double>());
  }
  static double most(const std::vector<double>& v) {
    return *std::max_element(v.begin(), v.end());
  }
};

struct Contestant {
  Case what{};
  std::unique_ptr<Training> training{};
  std::int64_t updates = 1, memory = 0;
  std::vector<double> ns{}, wall_ns{}, outside{};

  void round(int threads) {
    const Training::Time time = training->run(updates);
    const double unit =
        1e9 / (double(updates) * double(what.batch) * double(what.edges()));
    wall_ns.push_back(time.wall * unit);
    ns.push_back((threads == 1 ? time.cpu : time.wall) * unit);
    outside.push_back(time.outside / time.wall);
  }
};

std::vector<Contestant> contestants(const Arguments& a) {
  std::vector<Contestant> chosen;
  const std::vector<Case> all = all_cases();
  const auto is_name = [&](const std::string& text) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Case& c) { return c.name() == text; });
  };
  const auto matches = [&](const std::string& name) {
    return a.match.empty() ||
           std::any_of(a.match.begin(), a.match.end(), [&](const std::string& text) {
             return is_name(text) ? name == text : name.find(text) != std::string::npos;
           });
  };
  for (const Case& c : all)
    if (matches(c.name())) chosen.push_back({.what = c});
  // A ratio needs the other case too.
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    const std::string other = a.steps > 0 ? "" : chosen[k].what.against;
    const auto named = [&](const auto& c) { return c.name() == other; };
    if (other.empty() || std::any_of(chosen.begin(), chosen.end(),
                                     [&](const Contestant& c) { return named(c.what); }))
      continue;
    chosen.push_back({.what = *std::find_if(all.begin(), all.end(), named)});
  }
  if (chosen.empty()) throw Error(Code::usage, "kan_bench: no case matches; see --list");
  return chosen;
}

void start(Contestant& c, const Arguments& a, parallel::Communicator& communicator) {
  c.training = make_training(communicator, c.what, a.how);
  c.training->run(2);
  const double trial = c.training->run(3).wall / 3;
  c.memory = c.training->memory();
  c.updates = std::max<std::int64_t>(3, std::int64_t(a.seconds / trial));
}

nlohmann::json report(const Contestant& c, const std::map<std::string, Contestant*>& all,
                      const Machine& machine, int threads) {
  const double rate = Machine::most(machine.bars);
  const double factor = std::clamp(kBarRate / rate, 1 / 1.5, 1.5);
  const double peak = Machine::most(c.what.fp64 ? machine.twice : machine.single);
  nlohmann::json j{{"case", c.what.name()},
                   {"engine", c.training->engine()},
                   {"leaves", c.training->leaves()},
                   {"threads", threads},
                   {"best_ns", best(c.ns)},
                   {"median_ns", median(c.ns)},
                   {"median_wall_ns", median(c.wall_ns)},
                   {"samples_per_second", 1e9 / (median(c.ns) * double(c.what.edges()))},
                   {"peak_share", 2 * operations(c.what) / best(c.ns) / peak / threads},
                   {"outside", median(c.outside)},
                   {"memory_mib", double(c.memory) / (1 << 20)},
                   {"loss", c.training->loss()}};
  if (c.what.bar > 0 && threads == 1) {
    j["bar_ns"] = c.what.bar;
    j["bar_scaled_ns"] = c.what.bar * factor;
  }
  if (!c.what.against.empty()) {
    std::vector<double> ratios;
    const Contestant& other = *all.at(c.what.against);
    for (std::size_t r = 0; r < c.ns.size(); ++r) ratios.push_back(c.ns[r] / other.ns[r]);
    j["against"] = c.what.against;
    j["ratio"] = median(ratios);
    if (c.what.ratio_bar > 0) j["ratio_bar"] = c.what.ratio_bar;
  }
  return j;
}

void print(const nlohmann::json& j) {
  const auto number = [&](const char* key, const char* format) {
    char text[32] = "";
    if (j.contains(key)) std::snprintf(text, sizeof text, format, j[key].get<double>());
    return std::string(text);
  };
  std::printf(
      "%-38s %-10s %3d %7.3f %7.3f %12.0f %5.0f%% %5.1f%% %6.1f %6s %6s %6s %5s\n",
      j["case"].get<std::string>().c_str(), j["engine"].get<std::string>().c_str(),
      j["leaves"].get<int>(), j["best_ns"].get<double>(), j["median_ns"].get<double>(),
      j["samples_per_second"].get<double>(), 100 * j["peak_share"].get<double>(),
      100 * j["outside"].get<double>(), j["memory_mib"].get<double>(),
      number("bar_ns", "%.2f").c_str(), number("bar_scaled_ns", "%.2f").c_str(),
      number("ratio", "%.3f").c_str(), number("ratio_bar", "%.2f").c_str());
}

void measure(const Arguments& a, parallel::Launch& launch) {
  const auto communicator = parallel::make_communicator();
  const int threads = launch.threads();
  std::vector<Contestant> cases = contestants(a);
  std::map<std::string, Contestant*> by_name;
  for (Contestant& c : cases) {
    by_name[c.what.name()] = &c;
    if (a.steps > 0) {
      make_training(*communicator, c.what, a.how)->run(a.steps);
    } else {
      start(c, a, *communicator);
    }
  }
  if (a.steps > 0) return;
  Machine machine;
  for (int round = 0; round < a.rounds; ++round)
    for (Contestant& c : cases) {
      machine.round();
      c.round(threads);
    }
  nlohmann::json all{{"threads", threads},
                     {"vector_bytes", KAN_VECTOR_BYTES},
                     {"rounds", a.rounds},
                     {"fma_bars_gflops", Machine::most(machine.bars)},
                     {"fma_bars_median_gflops", median(machine.bars)},
                     {"fma_f32_gflops", Machine::most(machine.single)},
                     {"fma_f64_gflops", Machine::most(machine.twice)},
                     {"triad_l2_gbs", triad_rate(384 << 10)},
                     {"triad_l3_gbs", triad_rate(6 << 20)},
                     {"triad_memory_gbs", triad_rate(std::int64_t{384} << 20)}};
  std::printf(
      "threads %d, vectors of %d bytes, %d rounds. One thread: FMA from L1 %.0f "
      "(bars: %.0f, median %.0f) GFLOP/s f32, %.0f f64; triad %.0f / %.0f / %.0f "
      "GB/s (384 KiB, 6 MiB, 384 MiB)\n",
      threads, KAN_VECTOR_BYTES, a.rounds, all["fma_f32_gflops"].get<double>(),
      all["fma_bars_gflops"].get<double>(), all["fma_bars_median_gflops"].get<double>(),
      all["fma_f64_gflops"].get<double>(), all["triad_l2_gbs"].get<double>(),
      all["triad_l3_gbs"].get<double>(), all["triad_memory_gbs"].get<double>());
  std::printf("%-38s %-10s %3s %7s %7s %12s %6s %6s %6s %6s %6s %6s %5s\n", "case",
              "engine", "V", "best ns", "median", "samples/s", "peak", "outside", "MiB",
              "bar", "scaled", "ratio", "bar");
  for (const Contestant& c : cases) {
    const nlohmann::json j = report(c, by_name, machine, threads);
    print(j);
    all["cases"].push_back(j);
  }
  if (!a.json.empty()) {
    std::ofstream file(a.json);
    file << all.dump(1) << "\n";
    if (!file.flush()) throw Error(Code::output, a.json + " cannot be written");
  }
}

void serve(const Arguments& a, parallel::Launch& launch) {
  const std::vector<Case> all = all_cases();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Case& c) { return c.name() == a.serve; });
  if (found == all.end())
    throw Error(Code::usage, "kan_bench: no case is called " + a.serve + "; see --list");
  const auto communicator = parallel::make_communicator();
  const auto training = make_training(*communicator, *found, a.how);
  const auto peak = [] { return double(parallel::peak_resident_bytes()) / (1 << 20); };
  training->run(1);
  const double first_loss = training->loss();
  training->run(10);
  const nlohmann::json about{
      {"parameters", Shape(found->network()).parameters()},
      {"versions", {"Kokkos " + std::to_string(KOKKOS_VERSION)}},
      {"engine", training->engine()},
      {"threads", launch.threads()},
      {"loss", first_loss},
      {"imported", peak() - double(training->memory()) / (1 << 20)}};
  std::cout << about.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const std::int64_t updates = std::stoll(line);
    const std::clock_t start = std::clock();
    const double wall = training->run(updates).wall;
    const nlohmann::json time{{"rows", updates * found->batch},
                              {"wall", wall},
                              {"cpu", double(std::clock() - start) / CLOCKS_PER_SEC},
                              {"loss", training->loss()},
                              {"peak", peak()}};
    std::cout << time.dump() << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (arguments.list) {
      for (const Case& c : all_cases()) std::cout << c.name() << "\n";
      return 0;
    }
    parallel::Launch launch;
    launch.start_kokkos(0, arguments.kokkos);
    arguments.serve.empty() ? measure(arguments, launch) : serve(arguments, launch);
    return 0;
  } catch (const Error& error) {
    return parallel::fail("kan_bench", error);
  }
}
