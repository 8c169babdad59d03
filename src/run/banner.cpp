#include "run/banner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <sstream>

#include "kan/error.hpp"
#include "run/start_checks.hpp"

namespace kan::run {
namespace {

const char* base_name(Base base) {
  return base == Base::silu ? "silu" : base == Base::identity ? "identity" : "none";
}

// What the set-up script recorded of the packages it took, where it made the root.
std::string toolchain_record() {
  std::ifstream file("/etc/kokkan-toolchain");
  std::ostringstream text;
  if (file) text << "toolchain:\n" << file.rdbuf();
  return text.str();
}

}  // namespace

std::string configuration() {
  std::string text = fmt::format(
      "kan_driver {} ({})\ncompiler: {}\nKokkos: {}, backend {}\nMPI: {}\n"
      "Kokkos Kernels: {}\nhost vectors: {} bytes\nprecisions: float, double\n",
      io::code_version(), io::git_hash(), io::compiler(), io::kokkos_version(),
      io::backend(),
#ifdef KAN_HAVE_MPI
      "yes",
#else
      "no",
#endif
#ifdef KAN_HAVE_KOKKOSKERNELS
      "yes",
#else
      "no",
#endif
      vector_bytes());
  return text + toolchain_record();
}

std::string banner(const Session& s, const Shape& shape, const std::string& engine,
                   int leaves, bool recorded, const MemoryEstimate& memory) {
  std::string text;
  const auto add = [&text](const std::string& line) { text += line + "\n"; };
  add(fmt::format("kokkan {} ({}), {}", io::code_version(), io::git_hash(),
                  io::compiler()));
  add(fmt::format("Kokkos {}, {} on {}, {} thread{} per rank", io::kokkos_version(),
                  io::backend(), s.info.device, s.info.threads,
                  s.info.threads == 1 ? "" : "s"));
  add(fmt::format("ranks: {}; communication: {}; MPI: {}", s.ranks, s.communication,
                  s.info.mpi.substr(0, s.info.mpi.find(','))));
  add(parallel::map_text(s.places));
  add(fmt::format(
      "precision: {}; kernels: {}, vectors of {} bytes; {} gradient sum{} a step",
      s.info.precision, engine, engine.ends_with("/host") ? vector_bytes() : 0, leaves,
      leaves == 1 ? "" : "s"));
  if (recorded) add("steps: recorded as a graph");
  add(fmt::format("deck: {}{}", s.deck.name(),
                  s.command.overrides.empty()
                      ? ""
                      : fmt::format(" with {}", fmt::join(s.command.overrides, " "))));
  if (!s.checkpoint.empty()) add("going on from: " + s.checkpoint);
  add("layer     in    out  grid order  base      parameters");
  constexpr int kShown = 12;
  for (int l = 0; l < std::min(shape.layers(), kShown); ++l) {
    const LayerShape& y = shape.layer(l);
    add(fmt::format("{:5} {:6} {:6} {:5} {:5}  {:8} {:11}", l, y.in, y.out, y.grid,
                    y.order, base_name(y.base), shape.offset(l + 1) - shape.offset(l)));
  }
  if (shape.layers() > kShown) add(fmt::format("  ... {} more", shape.layers() - kShown));
  add(fmt::format("parameters: {} trained ({} as PyKAN counts them)", shape.parameters(),
                  shape.parameters_pykan()));
  text += fmt::format(
      "memory per rank: {} (data {}, {}parameters {}, optimizer {}, gradient sums {}, "
      "activations {})",
      bytes_text(double(memory.total())), bytes_text(double(memory.data)),
      memory.windows > 0 ? fmt::format("windows {}, ", bytes_text(double(memory.windows)))
                         : "",
      bytes_text(double(memory.parameters)), bytes_text(double(memory.optimizer)),
      bytes_text(double(memory.leaves)), bytes_text(double(memory.activations)));
  return text;
}

}  // namespace kan::run
