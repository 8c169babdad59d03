// A run without training, to be killed anywhere: states and history rows are
// deterministic functions of the step and of the state before, all kinds of files are
// written often, and each launch goes on from the newest checkpoint ("-r auto").
//
//   file_writer DIRECTORY STEPS
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "io/checkpoint_files.hpp"
#include "io/log.hpp"
#include "io/outputs.hpp"
#include "io/report.hpp"
#include "io/run_directory.hpp"
#include "parallel/launch.hpp"
#include "unit/fake_state.hpp"

namespace {

using namespace kan;
using namespace kan::io;

constexpr std::int64_t kStepsPerEpoch = 3;
constexpr std::int64_t kRows = 64;
constexpr std::size_t kSegmentRows = 4;

std::vector<OutputOptions> settings() {
  std::vector<OutputOptions> outputs(3);
  outputs[0].type = OutputType::history;
  outputs[0].dstep = 1;
  outputs[1].number = 2;
  outputs[1].type = OutputType::restart;
  outputs[1].dstep = 2;
  outputs[1].keep = 2;
  outputs[2].number = 3;
  outputs[2].type = OutputType::prediction;
  outputs[2].depoch = 2;
  return outputs;
}

void mix(std::vector<LayerArrays<double>>& all, std::int64_t step) {
  std::uint64_t place = 0;
  for (LayerArrays<double>& arrays : all) {
    for (std::vector<double>* values :
         {&arrays.coef, &arrays.scale_base, &arrays.scale_spline}) {
      for (double& value : *values) {
        value = 0.9 * value + test::mixed(static_cast<std::uint64_t>(step), place++);
      }
    }
  }
}

/// The update from state.progress.step on, and what is recorded of it.
void step(TrainingState<double>& state, Outputs& outputs) {
  Progress& progress = state.progress;
  const double loss = std::abs(state.parameters[0].coef[0]);
  progress.elapsed += 0.25;
  outputs.record(StepRecord{progress.step, progress.epoch, loss, 1e-3,
                            state.first_moment[1].coef[2], 100.0, progress.elapsed});
  mix(state.parameters, progress.step);
  mix(state.first_moment, 2 * progress.step + 1);
  mix(state.second_moment, 3 * progress.step + 2);
  ++progress.step;
  ++progress.optimizer_step;
  progress.samples_seen += kRows;
  progress.position += kRows;
  progress.epoch_loss_sum += loss * kRows;
  progress.epoch_outside[0] += static_cast<std::int64_t>(100 * loss);
  if (progress.position < kRows * kStepsPerEpoch) return;
  const double mean = progress.epoch_loss_sum / static_cast<double>(progress.position);
  if (mean < progress.best_loss) {
    progress.best_loss = mean;
    progress.best_epoch = progress.epoch;
  }
  outputs.record(EpochRecord{progress.epoch,
                             mean,
                             std::nan(""),
                             mean / 2,
                             std::nan(""),
                             {static_cast<double>(progress.epoch_outside[0]), 0, 0}});
  ++progress.epoch;
  progress.position = 0;
  progress.epoch_loss_sum = 0;
  progress.epoch_outside.assign(3, 0);
}

void run(const std::string& where, std::int64_t steps) {
  RunDirectory directory(where, "run", Existing::restart);
  const FoundCheckpoint found = find_checkpoint(where, "run", "auto");
  Log log(Log::Screen::quiet);
  log.open(directory.path(".log"), true);
  for (const std::string& note : directory.notes()) log.note(note);
  for (const std::string& note : found.notes) log.note(note);

  TrainingState<double> state = test::fake_state<double>();
  state.progress = {};
  state.progress.epoch_outside.assign(3, 0);
  if (found.exists()) state = read_checkpoint<double>(found.header.path);
  RunInfo info;
  info.precision = "double";
  Outputs outputs(directory, info, settings(), 3, kSegmentRows);
  for (const std::string& note : outputs.resume(state.progress, found.header.path)) {
    log.note(note);
  }
  const Progress& progress = state.progress;
  const auto moment = [&](Reason reason) {
    return Moment{progress.step, progress.epoch, progress.samples_seen, progress.elapsed,
                  reason};
  };
  while (progress.step < steps) {
    step(state, outputs);
    outputs.flush_if_due(moment(Reason::cadence));
    for (const OutputOptions* output : outputs.due(progress.step, progress.epoch, 0)) {
      if (output->type == OutputType::restart) {
        outputs.checkpoint(state, Reason::cadence);
      } else {
        const std::vector<double>& values = state.parameters[2].coef;
        outputs.prediction<double>(*output, moment(Reason::cadence), std::span(values),
                                   std::span(values),
                                   static_cast<std::int64_t>(values.size()), 1);
      }
    }
    log.progress({progress.step, progress.epoch});
  }
  outputs.checkpoint(state, Reason::final);
  for (const std::string& note : outputs.finish(moment(Reason::final))) log.warning(note);
  Report report;
  report.steps = progress.step;
  report.epochs = progress.epoch;
  report.train_loss = progress.best_loss;
  write_report(directory.path(".report.json"), report, info);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return static_cast<int>(Code::usage);
  try {
    run(argv[1], std::atoll(argv[2]));
  } catch (const Error& error) {
    std::fputs(
        kan::parallel::error_line("kan_driver", 0, 1, error.what(), error.code()).c_str(),
        stderr);
    return static_cast<int>(error.code());
  }
  return 0;
}
