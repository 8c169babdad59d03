// The history: what is recorded is what is read, however a run was cut into launches; and
// which rows and outputs are due.
#include "io/history.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <memory>

#include "io/outputs.hpp"
#include "io/result_files.hpp"
#include "unit/fake_state.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using namespace kan::test;

namespace {

constexpr int kStepsPerEpoch = 5;
constexpr int kLayers = 2;

RunInfo fake_run() {
  RunInfo run;
  run.precision = "double";
  run.deck = "<job>\n";
  return run;
}

StepRecord step_row(std::int64_t step) {
  const std::uint64_t n = static_cast<std::uint64_t>(step);
  return {step,        step / kStepsPerEpoch,    mixed(1, n), mixed(2, n), mixed(3, n),
          mixed(4, n), static_cast<double>(step)};
}

EpochRecord epoch_row(std::int64_t epoch) {
  const std::uint64_t n = static_cast<std::uint64_t>(epoch);
  return {epoch,       mixed(5, n),  std::nan(""),
          mixed(6, n), std::nan(""), {mixed(7, n), mixed(8, n)}};
}

Progress progress_at(std::int64_t step) {
  Progress progress;
  progress.step = step;
  progress.epoch = step / kStepsPerEpoch;
  progress.position = step % kStepsPerEpoch * 64;
  progress.history_rows = step;
  progress.elapsed = static_cast<double>(step);
  return progress;
}

Moment moment_at(std::int64_t step) {
  return {step, step / kStepsPerEpoch, step * 64, static_cast<double>(step),
          Reason::cadence};
}

/// The updates [begin, end) as a run would record them.
void run_steps(History& history, std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    history.add(step_row(step));
    if ((step + 1) % kStepsPerEpoch == 0) history.add(epoch_row(step / kStepsPerEpoch));
  }
}

bool same_rows(const HistoryRows& a, const HistoryRows& b) {
  bool same = a.steps.size() == b.steps.size() && a.epochs.size() == b.epochs.size() &&
              (a.size() == 0 || a.layers == b.layers);
  for (std::size_t n = 0; same && n < a.steps.size(); ++n) {
    const StepRecord &x = a.steps[n], &y = b.steps[n];
    same = x.step == y.step && x.epoch == y.epoch && same_bits(x.loss, y.loss) &&
           same_bits(x.learning_rate, y.learning_rate) &&
           same_bits(x.gradient_norm, y.gradient_norm) &&
           same_bits(x.samples_per_second, y.samples_per_second) &&
           same_bits(x.elapsed, y.elapsed);
  }
  for (std::size_t n = 0; same && n < a.epochs.size(); ++n) {
    const EpochRecord &x = a.epochs[n], &y = b.epochs[n];
    same = x.epoch == y.epoch && same_bits(x.train_loss, y.train_loss) &&
           same_bits(x.train_accuracy, y.train_accuracy) &&
           same_bits(x.validation_loss, y.validation_loss) &&
           same_bits(x.validation_accuracy, y.validation_accuracy) &&
           same_bits(x.outside, y.outside);
  }
  return same;
}

/// What an undisturbed run of this many steps records.
HistoryRows expected_rows(std::int64_t steps) {
  HistoryRows rows;
  rows.layers = kLayers;
  for (std::int64_t step = 0; step < steps; ++step) rows.steps.push_back(step_row(step));
  for (std::int64_t epoch = 0; epoch < steps / kStepsPerEpoch; ++epoch) {
    rows.epochs.push_back(epoch_row(epoch));
  }
  return rows;
}

struct Place {
  Scratch scratch;
  RunDirectory directory{scratch.path(), "run", Existing::refuse};
  HistoryRows read() const { return read_history(scratch.path(), "run"); }
  std::size_t segments() const {
    return numbered_files(scratch.path(), "run", ".hst.", ".h5", Code::data).size();
  }
  bool has(const std::string& file) const {
    return std::filesystem::exists(scratch.file(file));
  }
  std::vector<std::string> text_rows() const {
    std::ifstream file(scratch.file("run.hst"));
    std::vector<std::string> rows;
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("#")) rows.push_back(line);
    }
    return rows;
  }
};

}  // namespace

TEST_CASE("rows are on the disk after a flush, segments are joined at the end") {
  const Place place;
  History history(place.directory, fake_run(), kLayers, {}, 10);
  CHECK(place.read().size() == 0);
  run_steps(history, 0, 7);
  CHECK(place.read().size() == 0);
  history.flush(moment_at(7));
  CHECK(same_rows(place.read(), expected_rows(7)));
  CHECK(place.segments() == 1);
  run_steps(history, 7, 14);
  history.flush(moment_at(14));  // the segment is full now
  run_steps(history, 14, 23);
  history.flush(moment_at(23));
  CHECK(place.segments() == 2);
  CHECK(place.has("run.hst.00000014.h5"));
  CHECK(same_rows(place.read(), expected_rows(23)));
  run_steps(history, 23, 24);
  history.finish(moment_at(24));
  CHECK(place.segments() == 0);
  CHECK(place.has("run.hst.h5"));
  CHECK(same_rows(place.read(), expected_rows(24)));
  CHECK(history.rows() == 24);
  CHECK(history.notes().empty());
}

TEST_CASE("the columns are plain one-dimensional datasets with units") {
  const Place place;
  History history(place.directory, fake_run(), kLayers, {});
  run_steps(history, 0, 10);
  history.finish(moment_at(10));
  const Hdf5File file = Hdf5File::open(place.scratch.file("run.hst.h5"));
  for (const char* name : {"step", "step_epoch", "loss", "learning_rate", "gradient_norm",
                           "samples_per_second", "elapsed"}) {
    CHECK(file.info(name).shape == std::vector<std::int64_t>{10});
  }
  for (const char* name : {"epoch", "train_loss", "train_accuracy", "validation_loss",
                           "validation_accuracy", "layer0_outside", "layer1_outside"}) {
    CHECK(file.info(std::string("epoch/") + name).shape == std::vector<std::int64_t>{2});
  }
  for (const std::string& name : file.datasets()) {
    CHECK_FALSE(file.read_string_attribute(name, "units").empty());
    CHECK_FALSE(file.read_string_attribute(name, "description").empty());
  }
  CHECK(file.read<double>("loss")[3] == mixed(1, 3));
  CHECK(file.read_int_attribute("/info", "step") == 10);
}

TEST_CASE("a restart drops what is past it, wherever it falls") {
  for (const std::int64_t flushed : {4, 5, 9, 10, 16, 20}) {
    for (std::int64_t restart = 0; restart <= flushed; ++restart) {
      const Place place;
      {
        History history(place.directory, fake_run(), kLayers, {}, 8);
        for (std::int64_t step = 0; step < flushed; step += 4) {
          const std::int64_t end = std::min(step + 4, flushed);
          run_steps(history, step, end);
          history.flush(moment_at(end));
        }
        run_steps(history, flushed, flushed + 3);  // lost with the process
      }
      INFO("flushed to " << flushed << ", restart from " << restart);
      History history(place.directory, fake_run(), kLayers, progress_at(restart), 8);
      CHECK(history.notes().empty());
      CHECK(same_rows(place.read(), expected_rows(restart)));
      run_steps(history, restart, 24);
      history.finish(moment_at(24));
      CHECK(same_rows(place.read(), expected_rows(24)));
      CHECK(history.notes().empty());
      CHECK(place.segments() == 0);
      CHECK(place.text_rows().size() == 24);
    }
  }
}

TEST_CASE("a finished run goes on from its joined history") {
  const Place place;
  for (const std::int64_t start : {0, 12, 7}) {
    History history(place.directory, fake_run(), kLayers, progress_at(start), 8);
    run_steps(history, start, start + 12);
    history.finish(moment_at(start + 12));
    CHECK(same_rows(place.read(), expected_rows(start + 12)));
  }
}

TEST_CASE("an epoch that ends after the last flush of its step is not lost") {
  const Place place;
  History history(place.directory, fake_run(), kLayers, {}, 4);
  for (std::int64_t step = 0; step < 5; ++step) history.add(step_row(step));
  history.flush(moment_at(5));
  history.add(epoch_row(0));
  history.flush(moment_at(5));
  CHECK(same_rows(place.read(), expected_rows(5)));
  History again(place.directory, fake_run(), kLayers, progress_at(5), 4);
  CHECK(same_rows(place.read(), expected_rows(5)));
  run_steps(again, 5, 10);
  again.finish(moment_at(10));
  CHECK(same_rows(place.read(), expected_rows(10)));
}

TEST_CASE("overlapping segments: the later one holds the truth") {
  const Place place;
  HistoryRows early = expected_rows(15), late = expected_rows(25);
  early.end_step = 15;
  for (StepRecord& row : early.steps) {
    if (row.step >= 10) row.loss = -1;
  }
  early.epochs[2].train_loss = -1;
  std::erase_if(late.steps, [](const StepRecord& row) { return row.step < 10; });
  std::erase_if(late.epochs, [](const EpochRecord& row) { return row.epoch < 2; });
  late.first_step = 10;
  late.end_step = 25;
  write_history_file(place.directory.segment_path(0), early, fake_run(), {});
  write_history_file(place.directory.segment_path(10), late, fake_run(), {});
  CHECK(same_rows(place.read(), expected_rows(25)));
}

TEST_CASE("a damaged segment is an error for readers and set aside by a restart") {
  const Place place;
  {
    History history(place.directory, fake_run(), kLayers, {}, 4);
    run_steps(history, 0, 6);
    history.flush(moment_at(6));
    run_steps(history, 6, 12);
    history.flush(moment_at(12));
  }
  std::filesystem::resize_file(place.scratch.file("run.hst.00000006.h5"), 900);
  const Caught error = error_of([&] { place.read(); });
  CHECK(error.code == Code::checkpoint);
  CHECK(error.has("run.hst.00000006.h5"));
  History history(place.directory, fake_run(), kLayers, progress_at(10), 4);
  REQUIRE(history.notes().size() == 1);
  CHECK(place.has("run.hst.00000006.h5.aside"));
  run_steps(history, 10, 12);
  history.finish(moment_at(12));
  CHECK(history.notes().size() == 2);
  CHECK(history.notes()[1].find("8 of 12 rows") != std::string::npos);
  CHECK(place.read().steps.size() == 8);
}

TEST_CASE("the text has one row a line and keeps its head over restarts") {
  const Place place;
  {
    History history(place.directory, fake_run(), kLayers, {});
    run_steps(history, 0, 7);
    history.flush(moment_at(7));
  }
  std::ofstream(place.scratch.file("run.hst"), std::ios::app)
      << "           7        1  1.0";
  History history(place.directory, fake_run(), kLayers, progress_at(3));
  run_steps(history, 3, 6);
  history.finish(moment_at(6));
  std::ifstream file(place.scratch.file("run.hst"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE(lines.size() == 9);
  for (const char* name : {"step", "epoch", "loss", "learning_rate", "gradient_norm",
                           "samples_per_second", "elapsed"}) {
    CHECK(lines[0].find(name) != std::string::npos);
  }
  CHECK(lines[4] == "# restart step=3");
  CHECK(std::stoll(lines[5]) == 3);
  CHECK(lines[7].starts_with("# epoch=0 train_loss="));
  CHECK(std::stoll(lines[8]) == 5);
}

TEST_CASE("cadences are due at multiples, whatever is asked in between") {
  OutputOptions options;
  options.dstep = 100;
  Cadence steps(options);
  CHECK_FALSE(steps.due(0, 9, 9));
  CHECK_FALSE(steps.due(99, 9, 9));
  CHECK(steps.due(100, 0, 0));
  CHECK(steps.due(104, 0, 0));  // asked at averaging points only
  steps.done(137, 0, 0);        // a signal's checkpoint
  CHECK_FALSE(steps.due(199, 0, 0));
  CHECK(steps.due(200, 0, 0));
  options = {};
  options.depoch = 2;
  Cadence epochs(options);
  CHECK_FALSE(epochs.due(1000, 1, 1000));
  CHECK(epochs.due(1000, 2, 0));
  options = {};
  options.dwall = 60;
  Cadence seconds(options);
  CHECK_FALSE(seconds.due(1000, 9, 59));
  CHECK(seconds.due(0, 0, 60));
  CHECK_FALSE(Cadence(OutputOptions()).due(1000, 1000, 1000));
}

namespace {

OutputOptions output(int number, OutputType type, std::int64_t dstep,
                     std::int64_t depoch = 0) {
  OutputOptions options;
  options.number = number;
  options.type = type;
  options.dstep = dstep;
  options.depoch = depoch;
  return options;
}

/// The steps of the rows kept under one history block, the run cut at `cut`.
std::vector<std::int64_t> kept_steps(const OutputOptions& history, std::int64_t cut,
                                     std::int64_t end) {
  const Place place;
  for (const std::int64_t begin : {std::int64_t{0}, cut}) {
    Outputs outputs(place.directory, fake_run(), {history}, kLayers);
    TrainingState<double> state = fake_state<double>();
    state.progress = progress_at(begin);
    if (begin > 0) {
      state = read_checkpoint<double>(place.directory.checkpoint_path(begin));
      outputs.resume(state.progress, place.directory.checkpoint_path(begin));
    } else {
      outputs.resume({}, "");
    }
    const std::int64_t stop = begin > 0 ? end : cut;
    for (std::int64_t step = begin; step < stop; ++step) outputs.record(step_row(step));
    const std::int64_t rows = outputs.history_rows();
    state.progress = progress_at(stop);
    outputs.checkpoint(state, Reason::final);
    CHECK(state.progress.history_rows == rows);
    outputs.finish(moment_at(stop));
  }
  std::vector<std::int64_t> steps;
  for (const StepRecord& row : place.read().steps) steps.push_back(row.step);
  return steps;
}

}  // namespace

TEST_CASE("the cadence decides which rows are kept, also over a restart") {
  const std::vector<std::int64_t> every4 = {0, 4, 8, 12, 16, 20};
  const std::vector<std::int64_t> epochs2 = {0, 10, 20};
  for (std::int64_t cut = 1; cut < 23; ++cut) {
    INFO("cut at " << cut);
    CHECK(kept_steps(output(1, OutputType::history, 4), cut, 23) == every4);
    CHECK(kept_steps(output(1, OutputType::history, 0, 2), cut, 23) == epochs2);
  }
}

TEST_CASE("outputs that are due come with checkpoints last, and are made once") {
  const Place place;
  OutputOptions disabled = output(4, OutputType::prediction, 1);
  disabled.enabled = false;
  Outputs outputs(
      place.directory, fake_run(),
      {output(1, OutputType::restart, 10), output(2, OutputType::prediction, 20),
       output(3, OutputType::parameters, 10), disabled},
      kLayers);
  outputs.resume({}, "");
  CHECK(outputs.due(9, 0, 0).empty());
  CHECK(outputs.due(10, 0, 0).size() == 2);
  const auto due = outputs.due(20, 0, 0);
  REQUIRE(due.size() == 3);
  CHECK(due[0]->number == 2);
  CHECK(due[2]->type == OutputType::restart);

  TrainingState<float> state = fake_state<float>();
  state.progress.step = 20;
  const std::vector<float> predicted = {1, 2, 3, 4, 5, 6}, target = {6, 5, 4, 3, 2, 1};
  const std::string prediction = outputs.prediction<float>(
      *due[0], moment_at(20), std::span(predicted), std::span(target), 2, 3);
  const std::string parameters = outputs.parameters(*due[1], Reason::cadence, state);
  outputs.checkpoint(state, Reason::cadence);
  CHECK(outputs.due(29, 0, 0).empty());
  CHECK(prediction == place.scratch.file("run.out2.00000020.h5"));
  const Hdf5File file = Hdf5File::open(prediction);
  CHECK(file.read<float>("/prediction", {2, 3}) == predicted);
  CHECK(file.read<float>("/target", {2, 3}) == target);
  const Hdf5File network = Hdf5File::open(parameters);
  CHECK(same_bits(network.read<float>("/network/layer1/coef"), state.parameters[1].coef));
  CHECK_FALSE(network.exists("/state"));
  CHECK(place.has("run.00000020.rst.h5"));
}
