// Writes the history of a made-up run for the tests of the Python tools, and prints the
// rows that a reader must find: "step NUMBER LOSS" and "epoch NUMBER TRAIN_LOSS OUTSIDE".
//
//   history_sample DIRECTORY NAME segments | joined | overlap
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "io/history.hpp"
#include "unit/fake_state.hpp"

namespace {

using namespace kan;
using namespace kan::io;

constexpr std::int64_t kSteps = 40, kStepsPerEpoch = 8;

double loss_of(std::int64_t step, int launch) {
  return std::exp(-0.05 * static_cast<double>(step)) *
         (2 + test::mixed(static_cast<std::uint64_t>(launch),
                          static_cast<std::uint64_t>(step)));
}

/// Steps [begin, end); launch: makes the values of one that is dropped differ.
void record(History& history, std::int64_t begin, std::int64_t end, int launch) {
  for (std::int64_t step = begin; step < end; ++step) {
    const double seconds = 0.1 * static_cast<double>(step);
    history.add(StepRecord{step, step / kStepsPerEpoch, loss_of(step, launch), 1e-3, 1.0,
                           10.0, seconds});
    if ((step + 1) % kStepsPerEpoch == 0) {
      const double loss = loss_of(step, launch + 10);
      history.add(EpochRecord{step / kStepsPerEpoch,
                              loss,
                              std::nan(""),
                              2 * loss,
                              std::nan(""),
                              {0.0, loss / 8}});
    }
    if ((step + 1) % 10 == 0) {
      history.flush({step + 1, (step + 1) / kStepsPerEpoch, 0, seconds, Reason::cadence});
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string mode = argv[3];
  try {
    const RunDirectory directory(argv[1], argv[2], Existing::restart);
    RunInfo run;
    run.precision = "float";
    run.deck = "<job>\n";
    Progress progress;
    {
      History first(directory, run, 2, progress, 5);
      record(first, 0, 30, 1);
    }
    progress.step = progress.history_rows = 17;
    progress.epoch = 2;
    std::string keep;
    if (mode == "overlap") {
      // As after a kill between the restart's first flush and the end of its clean-up.
      keep = directory.segment_path(10) + ".kept";
      write_file_atomic(keep, read_text_file(directory.segment_path(10), Code::data));
    }
    History history(directory, run, 2, progress, 5);
    if (mode == "overlap") {
      rename_file(keep, directory.segment_path(10));
      HistoryRows late;
      late.first_step = 17;
      late.end_step = kSteps;
      late.layers = 2;
      for (std::int64_t step = 17; step < kSteps; ++step) {
        late.steps.push_back(
            {step, step / kStepsPerEpoch, loss_of(step, 2), 1e-3, 1, 10, 0});
        if ((step + 1) % kStepsPerEpoch == 0) {
          const double loss = loss_of(step, 12);
          late.epochs.push_back({step / kStepsPerEpoch,
                                 loss,
                                 std::nan(""),
                                 2 * loss,
                                 std::nan(""),
                                 {0.0, loss / 8}});
        }
      }
      write_history_file(directory.segment_path(17), late, run, {});
    } else {
      record(history, 17, kSteps, 2);
      if (mode == "joined") history.finish({kSteps, kSteps / kStepsPerEpoch, 0, 4});
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const int launch = step < 17 ? 1 : 2;
    fmt::print("step {} {:.17g}\n", step, loss_of(step, launch));
    if ((step + 1) % kStepsPerEpoch == 0) {
      const double loss = loss_of(step, launch + 10);
      fmt::print("epoch {} {:.17g} {:.17g}\n", step / kStepsPerEpoch, loss, loss / 8);
    }
  }
  return 0;
}
