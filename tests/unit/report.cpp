// What a run says: error lines, progress lines and the log file, the report's keys, and
// what every file tells of its maker.
#include "io/report.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "parallel/launch.hpp"
#include "unit/scratch.hpp"

using namespace kan;
using namespace kan::io;
using namespace kan::test;

namespace {

std::string file_text(const std::string& path) {
  return read_text_file(path, Code::data);
}

/// A screen that can be read.
struct Screen {
  std::string path;
  std::FILE* file;
  explicit Screen(const Scratch& scratch)
      : path(scratch.file("screen")), file(std::fopen(path.c_str(), "w+")) {}
  ~Screen() { std::fclose(file); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  std::string text() const {
    std::fflush(file);
    return file_text(path);
  }
};

ProgressLine some_progress() {
  ProgressLine line;
  line.step = 100;
  line.epoch = 3;
  line.loss = 0.125;
  line.learning_rate = 1e-3;
  line.samples_per_second = 2.5e6;
  line.milliseconds_per_step = 0.2048;
  line.elapsed = 61.5;
  line.fraction = 0.5;
  line.seconds_left = 61.5;
  return line;
}

Report some_report() {
  Report report;
  report.exit_reason = "target_loss";
  report.steps = 7840;
  report.epochs = 40;
  report.samples = 4000000;
  report.wall_seconds = 2;
  report.samples_per_second = 2e6;
  report.steady_samples_per_second = 2.1e6;
  report.train_loss = 1.25e-4;
  report.validation_loss = std::numeric_limits<double>::infinity();
  report.test_rmse = 0.01;
  report.parameters_trained = 2880;
  report.parameters_pykan = 5414;
  report.peak_memory_bytes = 3 << 20;
  report.phases = {{"forward_backward", {0.9, 1.0, 1.1}},
                   {"optimizer", {0.1, 0.2, 0.3}},
                   {"output", {0.01, 0.06, 0.1}},
                   {"other", {0, 0.02, 0.1}}};
  report.files = {"run.log", "run.hst.h5"};
  return report;
}

RunInfo some_run() {
  RunInfo run;
  run.mpi = "none";
  run.ranks = 4;
  run.threads = 2;
  run.precision = "float";
  run.device = "test device";
  return run;
}

}  // namespace

TEST_CASE("an error is one line with code, rank, and text") {
  CHECK(kan::parallel::error_line("kan_driver", 3, 8, "cannot write x: full; free space",
                                  Code::output) ==
        "kan_driver: error[4] rank 3/8: cannot write x: full; free space\n");
}

TEST_CASE("durations are short") {
  CHECK(duration_text(0.2) == "0s");
  CHECK(duration_text(59.4) == "59s");
  CHECK(duration_text(723) == "12m03s");
  CHECK(duration_text(12000) == "3h20m");
  CHECK(duration_text(187200) == "2d04h");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "more than 30 years");
}

TEST_CASE("progress is one key=value line, on a screen that is no terminal too") {
  const Scratch scratch;
  const Screen screen(scratch);
  const std::string expected =
      "step=100 epoch=3 loss=1.250000e-01 lr=0.001 samples/s=2.5e+06 ms/step=0.2048 "
      "elapsed=61.500\n";
  {
    Log log(Log::Screen::automatic, screen.file);
    log.line("before the file is open");
    log.open(scratch.file("run.log"), false);
    log.progress(some_progress());
    log.note("something");
    log.warning("two\nlines");
  }
  const std::string all =
      "before the file is open\n" + expected + "note: something\nwarning: two\nlines\n";
  CHECK(screen.text() == all);
  CHECK(file_text(scratch.file("run.log")) == all);
  {
    Log log(Log::Screen::quiet, screen.file);
    log.open(scratch.file("run.log"), true);
    log.line("appended");
  }
  CHECK(screen.text() == all);
  CHECK(file_text(scratch.file("run.log")) == all + "appended\n");
  {
    Log log(Log::Screen::quiet, screen.file);
    log.open(scratch.file("run.log"), false);
  }
  CHECK(file_text(scratch.file("run.log")).empty());
}

TEST_CASE("a terminal gets a bar with the time left, the file the lines") {
  const Scratch scratch;
  const Screen screen(scratch);
  {
    Log log(Log::Screen::terminal, screen.file);
    log.open(scratch.file("run.log"), false);
    log.progress(some_progress());
    log.progress(some_progress());  // at once: the bar is not drawn again
    log.line("next");
  }
  CHECK(screen.text() ==
        "\r[============            ]  50% step 100 epoch 3 loss 1.2500e-01 2.5e+06 "
        "samples/s "
        "1m02s left\x1b[K\nnext\n");
  const std::string text = progress_text(some_progress()) + "\n";
  CHECK(file_text(scratch.file("run.log")) == text + text + "next\n");
}

TEST_CASE("the log of other ranks says nothing and makes no file") {
  const Scratch scratch;
  Log log;
  log.open(scratch.file("run.log"), false);
  log.line("text");
  log.progress(some_progress());
  CHECK_FALSE(std::filesystem::exists(scratch.file("run.log")));
}

TEST_CASE("a log on a full disk is code 4") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full here");
  Log log(Log::Screen::quiet);
  log.open("/dev/full", true);
  CHECK(error_of([&] { log.line("text"); }).code == Code::output);
}

TEST_CASE("the report has the keys of the manual, null for what does not exist") {
  const Scratch scratch;
  const std::string path = scratch.file("run.report.json");
  write_report(path, some_report(), some_run());
  const auto json = nlohmann::json::parse(file_text(path));
  for (const char* key :
       {"samples_per_second", "steady_samples_per_second", "steps", "epochs",
        "train_loss", "validation_loss", "test_loss", "train_accuracy",
        "validation_accuracy", "test_accuracy", "train_rmse", "validation_rmse",
        "test_rmse", "parameters_trained", "parameters_pykan", "peak_memory_bytes",
        "exit_reason", "phases"}) {
    CHECK(json.contains(key));
  }
  CHECK(json["exit_reason"] == "target_loss");
  CHECK(json["steps"] == 7840);
  CHECK(json["samples_per_second"] == 2e6);
  CHECK(json["train_loss"] == 1.25e-4);
  CHECK(json["validation_loss"].is_null());
  CHECK(json["test_accuracy"].is_null());
  CHECK(json["parameters_pykan"] == 5414);
  CHECK(json["phases"]["forward_backward"]["min"] == 0.9);
  CHECK(json["phases"]["forward_backward"]["mean"] == 1.0);
  CHECK(json["phases"]["optimizer"]["max"] == 0.3);
  CHECK(json["outside_kernels"] == 0.06 + 0.02);
  CHECK(json["ranks"] == 4);
  CHECK(json["precision"] == "float");
  CHECK(json["git_hash"] == git_hash());
}

TEST_CASE("the table on the screen has speed, phases in per cent, and files") {
  const std::string text = report_text(some_report(), some_run());
  CHECK(text.find("end: target loss reached (steps=7840 epochs=40") != std::string::npos);
  CHECK(text.find("2e+06 total, 500000 per rank, 2.1e+06 after warm-up") !=
        std::string::npos);
  CHECK(std::regex_search(
      text, std::regex("forward_backward +0\\.9000 +1\\.0000 +1\\.1000 +50\\.00\n")));
  CHECK(std::regex_search(
      text, std::regex("optimizer +0\\.1000 +0\\.2000 +0\\.3000 +10\\.00\n")));
  CHECK(text.find("outside of kernels and sums: 4.0 % of the time\n") !=
        std::string::npos);
  CHECK(text.find("  run.hst.h5\n") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("test_accuracy") == std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') < 30);
}

TEST_CASE("a build knows itself") {
  CHECK(std::regex_match(code_version(), std::regex("\\d+\\.\\d+\\.\\d+")));
  CHECK(std::regex_match(git_hash(), std::regex("[0-9a-f]{7,40}(-dirty)?|unknown")));
  CHECK(std::regex_match(kokkos_version(), std::regex("[45]\\.\\d+\\.\\d+")));
  CHECK(compiler().find(' ') != std::string::npos);
  CHECK_FALSE(backend().empty());
  CHECK_FALSE(device().empty());
  CHECK(std::regex_match(utc_now(),
                         std::regex("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ")));
}
