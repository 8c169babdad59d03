// The file gets every line in one write call, so that a kill cuts no line before the
// last.
#include "io/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace kan::io {

namespace {

constexpr auto kDrawEvery = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;
constexpr std::size_t kMostKept = 1 << 20;

std::string bar_text(const ProgressLine& line) {
  std::string bar;
  if (line.fraction >= 0) {
    const double fraction = std::clamp(line.fraction, 0.0, 1.0);
    const std::size_t full = static_cast<std::size_t>(std::lround(fraction * kBarWidth));
    bar = fmt::format("[{}{}] {:3.0f}% ", std::string(full, '='),
                      std::string(kBarWidth - full, ' '), std::floor(100 * fraction));
  }
  bar += fmt::format("step {} epoch {} loss {:.4e} {:.3g} samples/s", line.step,
                     line.epoch, line.loss, line.samples_per_second);
  if (line.seconds_left >= 0) bar += " " + duration_text(line.seconds_left) + " left";
  return bar;
}

}  // namespace

std::string progress_text(const ProgressLine& line) {
  return fmt::format(
      "step={} epoch={} loss={:.6e} lr={:.6g} samples/s={:.6g} ms/step={:.4g} "
      "elapsed={:.3f}",
      line.step, line.epoch, line.loss, line.learning_rate, line.samples_per_second,
      line.milliseconds_per_step, line.elapsed);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds >= 1e9) return "more than 30 years";
  const std::int64_t all = std::llround(std::max(seconds, 0.0));
  if (all < 60) return fmt::format("{}s", all);
  if (all < 3600) return fmt::format("{}m{:02d}s", all / 60, all % 60);
  if (all < 86400) return fmt::format("{}h{:02d}m", all / 3600, all / 60 % 60);
  return fmt::format("{}d{:02d}h", all / 86400, all / 3600 % 24);
}

Log::Log(Screen mode, std::FILE* screen)
    : screen_(mode == Screen::quiet ? nullptr : screen),
      active_(true),
      terminal_(mode == Screen::terminal ||
                (mode == Screen::automatic && ::isatty(::fileno(screen)) == 1)) {}

Log::~Log() { end_progress(); }

void Log::open(const std::string& path, bool append) {
  if (!active_) return;
  file_ = AppendFile(path, !append);
  file_.write(before_open_);
  before_open_.clear();
}

void Log::say(std::string_view text) {
  if (screen_ == nullptr) return;
  std::fwrite(text.data(), 1, text.size(), screen_);
  std::fflush(screen_);
}

void Log::record(std::string_view text) {
  if (file_) {
    file_.write(text);
  } else if (before_open_.size() < kMostKept) {
    before_open_ += text;
  }
}

void Log::line(std::string_view text) {
  if (!active_) return;
  end_progress();
  const std::string whole =
      text.ends_with('\n') ? std::string(text) : fmt::format("{}\n", text);
  say(whole);
  record(whole);
}

void Log::note(const std::string& text) { line("note: " + text); }

void Log::warning(const std::string& text) { line("warning: " + text); }

void Log::error(const std::string& text) {
  if (active_) record("error: " + text + "\n");
}

void Log::progress(const ProgressLine& figures) {
  if (!active_) return;
  const std::string text = progress_text(figures) + "\n";
  record(text);
  if (!terminal_) {
    say(text);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (bar_shown_ && now - drawn_ < kDrawEvery && figures.fraction < 1) return;
  drawn_ = now;
  bar_shown_ = true;
  // Back to the first column, and clear to the end of the line after the text.
  say("\r" + bar_text(figures) + "\x1b[K");
}

void Log::end_progress() {
  if (bar_shown_) say("\n");
  bar_shown_ = false;
}

}  // namespace kan::io
