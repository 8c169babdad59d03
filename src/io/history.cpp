// The order of changes keeps every moment in between good for a restart: files that hold
// only dropped rows go first, from the highest number down, then the one that straddles
// the restart is replaced; the joined file is durable before the segments go, and becomes
// a segment again, by rename, once the segments it made superfluous are gone.
#include "io/history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <cstdlib>
#include <sstream>

namespace kan::io {

namespace {

constexpr auto kFlushEvery = std::chrono::seconds(60);
constexpr auto kTextEvery = std::chrono::seconds(1);
constexpr std::size_t kTextBytes = 1 << 16;
constexpr std::string_view kEpochMark = "# epoch=";

std::string text_header() {
  return fmt::format("# {:>10} {:>8} {:>16} {:>16} {:>16} {:>18} {:>12}\n", "step",
                     "epoch", "loss", "learning_rate", "gradient_norm",
                     "samples_per_second", "elapsed");
}

std::string text_row(const StepRecord& row) {
  return fmt::format("{:12d} {:8d} {:16.9e} {:16.9e} {:16.9e} {:18.2f} {:12.3f}\n",
                     row.step, row.epoch, row.loss, row.learning_rate, row.gradient_norm,
                     row.samples_per_second, row.elapsed);
}

std::string text_row(const EpochRecord& row) {
  return fmt::format(
      "{}{} train_loss={:.9e} train_accuracy={:.6f} validation_loss={:.9e} "
      "validation_accuracy={:.6f} outside={:.6g}\n",
      kEpochMark, row.epoch, row.train_loss, row.train_accuracy, row.validation_loss,
      row.validation_accuracy, fmt::join(row.outside, ","));
}

/// True for a line of the text that a restart keeps.
bool keep_line(const std::string& line, const Progress& progress) {
  if (line.starts_with(kEpochMark)) {
    return std::strtoll(line.c_str() + kEpochMark.size(), nullptr, 10) < progress.epoch;
  }
  if (line.starts_with('#')) return true;
  char* end = nullptr;
  const std::int64_t step = std::strtoll(line.c_str(), &end, 10);
  return end != line.c_str() && step < progress.step;
}

bool is_there(const std::string& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0;
}

}  // namespace

History::History(const RunDirectory& directory, const RunInfo& run, int layers,
                 const Progress& progress, std::size_t segment_rows)
    : directory_(directory),
      run_(run),
      segment_rows_(segment_rows),
      rows_(progress.history_rows),
      flushed_(std::chrono::steady_clock::now()),
      text_written_(flushed_) {
  open_.first_step = open_.end_step = progress.step;
  open_.layers = layers;
  adopt_joined();
  cut_segments(progress);
  cut_text(progress);
}

void History::set_aside(const std::string& path, const std::string& why) {
  rename_file(path, path + ".aside");
  notes_.push_back(
      fmt::format("{}; set aside as {}.aside, its rows are missing in the "
                  "history",
                  why, path));
}

/// A finished run left one joined file, and perhaps segments it had no time to remove.
void History::adopt_joined() {
  const std::string joined = directory_.joined_path();
  if (!is_there(joined)) return;
  std::int64_t first_step = 0;
  try {
    first_step = read_history_file(joined).first_step;
  } catch (const Error& error) {
    set_aside(joined, error.what());
    return;
  }
  for (const auto& [number, path] : numbered_files(
           directory_.directory(), directory_.name(), ".hst.", ".h5", Code::output)) {
    if (number != first_step) remove_file(path);
  }
  sync_directory(directory_.directory());
  rename_file(joined, directory_.segment_path(first_step));
  sync_directory(directory_.directory());
}

void History::cut_segments(const Progress& progress) {
  auto files = numbered_files(directory_.directory(), directory_.name(), ".hst.", ".h5",
                              Code::output);
  for (; !files.empty() && files.back().first > progress.step; files.pop_back()) {
    remove_file(files.back().second);
  }
  while (!files.empty()) {
    const auto [number, path] = files.back();
    files.pop_back();
    HistoryRows rows;
    try {
      rows = read_history_file(path);
    } catch (const Error& error) {
      set_aside(path, error.what());
      continue;
    }
    const bool changed = rows.cut(progress.step, progress.epoch);
    if (rows.size() == 0 && number == progress.step) {
      remove_file(path);
      continue;
    }
    if (changed) {
      write_history_file(path, rows, run_,
                         {progress.step, progress.epoch, progress.samples_seen,
                          progress.elapsed, Reason::cadence});
    }
    if (rows.size() < segment_rows_ || number == progress.step) {
      rows.layers = open_.layers;
      rows.first_step = number;
      rows.end_step = progress.step;
      open_ = std::move(rows);
    }
    break;
  }
  sync_directory(directory_.directory());
}

void History::cut_text(const Progress& progress) {
  const std::string path = directory_.history_text_path();
  std::string kept;
  if (is_there(path)) {
    std::istringstream lines(read_text_file(path, Code::output));
    for (std::string line; std::getline(lines, line);) {
      // A line without its end was cut by a kill.
      if (!lines.eof() && keep_line(line, progress)) kept += line + "\n";
    }
  }
  if (kept.empty()) kept = text_header();
  if (progress.step > 0) kept += fmt::format("# restart step={}\n", progress.step);
  write_file_atomic(path, kept);
  text_file_ = AppendFile(path);
}

void History::write_text(std::string_view line) {
  text_ += line;
  const auto now = std::chrono::steady_clock::now();
  if (text_.size() < kTextBytes && now - text_written_ < kTextEvery) return;
  text_file_.write(text_);
  text_.clear();
  text_written_ = now;
}

void History::add(const StepRecord& row) {
  open_.steps.push_back(row);
  ++rows_;
  ++unflushed_;
  write_text(text_row(row));
}

void History::add(const EpochRecord& row) {
  open_.epochs.push_back(row);
  ++unflushed_;
  write_text(text_row(row));
}

bool History::flush_due() const {
  return unflushed_ >= segment_rows_ ||
         (unflushed_ > 0 && std::chrono::steady_clock::now() - flushed_ >= kFlushEvery);
}

void History::flush(const Moment& moment) {
  flushed_ = std::chrono::steady_clock::now();
  if (!text_.empty()) text_file_.write(text_);
  text_.clear();
  if (unflushed_ == 0) return;
  text_file_.sync();
  open_.end_step = moment.step;
  write_history_file(directory_.segment_path(open_.first_step), open_, run_, moment);
  unflushed_ = 0;
  // Rows may still come for this very step (an epoch's end): then the segment grows on.
  if (open_.size() >= segment_rows_ && moment.step > open_.first_step) {
    open_.steps.clear();
    open_.epochs.clear();
    open_.first_step = moment.step;
  }
}

void History::finish(const Moment& moment) {
  flush(moment);
  const auto files = numbered_files(directory_.directory(), directory_.name(), ".hst.",
                                    ".h5", Code::output);
  if (files.empty()) return;
  HistoryRows all;
  try {
    all = join_segments(files);
  } catch (const Error& error) {
    notes_.push_back(fmt::format("the history is left in segments: {}", error.what()));
    return;
  }
  if (static_cast<std::int64_t>(all.steps.size()) != rows_) {
    notes_.push_back(
        fmt::format("the history holds {} of {} rows: the others were in another "
                    "directory or damaged",
                    all.steps.size(), rows_));
  }
  if (!all.epochs.empty()) last_epoch_ = all.epochs.back();
  write_history_file(directory_.joined_path(), all, run_, moment);
  for (auto file = files.rbegin(); file != files.rend(); ++file)
    remove_file(file->second);
  sync_directory(directory_.directory());
  open_.steps.clear();
  open_.epochs.clear();
  open_.first_step = moment.step;
}

}  // namespace kan::io
