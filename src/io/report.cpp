// JSON keys are in the order of the manual.
#include "io/report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"

namespace kan::io {

namespace {

using Json = nlohmann::ordered_json;

struct Figure {
  const char* key;
  double Report::* value;
};

constexpr Figure kRates[] = {
    {"samples_per_second", &Report::samples_per_second},
    {"steady_samples_per_second", &Report::steady_samples_per_second}};
constexpr Figure kResults[] = {{"train_loss", &Report::train_loss},
                               {"validation_loss", &Report::validation_loss},
                               {"test_loss", &Report::test_loss},
                               {"train_accuracy", &Report::train_accuracy},
                               {"validation_accuracy", &Report::validation_accuracy},
                               {"test_accuracy", &Report::test_accuracy},
                               {"train_rmse", &Report::train_rmse},
                               {"validation_rmse", &Report::validation_rmse},
                               {"test_rmse", &Report::test_rmse}};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string why(const Report& report) {
  if (report.exit_reason == "done") return "all steps done";
  if (report.exit_reason == "target_loss") return "target loss reached";
  if (report.exit_reason == "patience") return "no improvement within the patience";
  if (report.exit_reason == "walltime")
    return "wall limit, state saved: go on with -r latest";
  if (report.exit_reason == "signal") return "signal, state saved: go on with -r latest";
  if (report.exit_reason == "stop_now")
    return "stop_now, state saved: go on with -r latest";
  return report.exit_reason;
}

/// Seconds in which neither kernels nor sums over ranks run: rows are found, history is
/// written, outcomes are looked at.
double outside_kernels(const Report& report) {
  double seconds = 0;
  for (const auto& [name, phase] : report.phases)
    if (name == "data" || name == "output" || name == "other") seconds += phase.mean;
  return seconds;
}

/// What takes most of a step, and what makes it less.
std::string limit_text(const Report& report) {
  const std::pair<std::string, PhaseSeconds>* most = nullptr;
  double sums = 0;
  for (const auto& phase : report.phases) {
    if (most == nullptr || phase.second.mean > most->second.mean) most = &phase;
    if (phase.first.starts_with("reduce")) sums += phase.second.mean;
  }
  if (most == nullptr || !(report.wall_seconds > 0)) return "";
  std::string text = fmt::format("limit: {}, {:.0f} % of the time", most->first,
                                 100 * most->second.mean / report.wall_seconds);
  constexpr double kNoticed = 0.1;
  const double share = sums / report.wall_seconds;
  if (report.sums > 0 && share > kNoticed) {
    // The median is that of an undisturbed sum; what is beyond is waiting.
    const bool messages = 2 * double(report.sums) * report.sum_median > sums;
    text += fmt::format(
        "; sums over ranks {:.0f} %, {}", 100 * share,
        messages ? "mostly messages: more rows an update (optimizer/batch), fewer ranks "
                   "or parallel/average_every make that less"
                 : "mostly waiting for a rank that is late: files written by rank 0, "
                   "other programs on the cores (parallel/diagnose tells)");
  }
  return text + "\n";
}

}  // namespace

std::string report_json(const Report& report, const RunInfo& run) {
  Json json;
  json["exit_reason"] = report.exit_reason;
  json["exit_code"] = report.exit_code;
  for (const Figure& figure : kRates) json[figure.key] = number(report.*figure.value);
  json["steps"] = report.steps;
  json["epochs"] = report.epochs;
  json["samples"] = report.samples;
  json["wall_seconds"] = number(report.wall_seconds);
  for (const Figure& figure : kResults) json[figure.key] = number(report.*figure.value);
  json["parameters_trained"] = report.parameters_trained;
  json["parameters_pykan"] = report.parameters_pykan;
  json["peak_memory_bytes"] = report.peak_memory_bytes;
  json["ranks"] = run.ranks;
  json["threads"] = run.threads;
  json["precision"] = run.precision;
  json["training"] = run.training;
  json["backend"] = backend();
  json["device"] = run.device;
  json["mpi"] = run.mpi;
  json["code_version"] = code_version();
  json["git_hash"] = git_hash();
  json["kokkos_version"] = kokkos_version();
  json["created_utc"] = utc_now();
  json["phases"] = Json::object();
  for (const auto& [name, seconds] : report.phases) {
    json["phases"][name] = {{"min", number(seconds.min)},
                            {"mean", number(seconds.mean)},
                            {"max", number(seconds.max)}};
  }
  json["outside_kernels"] = number(outside_kernels(report));
  json["sums"] = {{"calls", report.sums},
                  {"bytes", report.sum_bytes},
                  {"shortest", number(report.sum_shortest)},
                  {"median", number(report.sum_median)},
                  {"longest", number(report.sum_longest)}};
  json["files"] = report.files;
  // A file name need not be UTF-8; JSON must.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_report(const std::string& path, const Report& report, const RunInfo& run) {
  write_file_atomic(path, report_json(report, run));
}

std::string report_text(const Report& report, const RunInfo& run) {
  std::string text =
      fmt::format("end: {} (steps={} epochs={} seconds={:.3f})\n", why(report),
                  report.steps, report.epochs, report.wall_seconds);
  if (std::isfinite(report.samples_per_second)) {
    text +=
        fmt::format("samples/s: {:.6g} total, {:.6g} per rank", report.samples_per_second,
                    report.samples_per_second / std::max(run.ranks, 1));
    if (std::isfinite(report.steady_samples_per_second)) {
      text += fmt::format(", {:.6g} after warm-up", report.steady_samples_per_second);
    }
    text += "\n";
  }
  for (const Figure& figure : kResults) {
    const double value = report.*figure.value;
    if (std::isfinite(value)) text += fmt::format("{}: {:.6e}\n", figure.key, value);
  }
  text += fmt::format(
      "parameters: {} trained, {} as PyKAN counts them; peak memory {:.1f} MiB\n",
      report.parameters_trained, report.parameters_pykan,
      static_cast<double>(report.peak_memory_bytes) / (1 << 20));
  if (!report.phases.empty()) {
    text += fmt::format("{:<18} {:>11} {:>11} {:>11} {:>7}\n", "phase (seconds)", "min",
                        "mean", "max", "%");
  }
  for (const auto& [name, seconds] : report.phases) {
    text += fmt::format(
        "{:<18} {:11.4f} {:11.4f} {:11.4f} {:7.2f}\n", name, seconds.min, seconds.mean,
        seconds.max,
        report.wall_seconds > 0 ? 100 * seconds.mean / report.wall_seconds : 0);
  }
  if (report.sums > 0)
    text += fmt::format(
        "sums over ranks: {} of {:.1f} kB; microseconds of one: {:.1f} shortest, {:.1f} "
        "median, {:.1f} longest\n",
        report.sums, 1e-3 * double(report.sum_bytes), 1e6 * report.sum_shortest,
        1e6 * report.sum_median, 1e6 * report.sum_longest);
  if (!report.phases.empty() && report.wall_seconds > 0)
    text += fmt::format("outside of kernels and sums: {:.1f} % of the time\n",
                        100 * outside_kernels(report) / report.wall_seconds);
  text += limit_text(report);
  if (!report.files.empty()) text += "files:\n";
  for (const std::string& file : report.files) text += "  " + file + "\n";
  return text;
}

}  // namespace kan::io
