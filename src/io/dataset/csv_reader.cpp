// Scanning of records. Most lines hold no quote: they are found by memchr and cut at the
// delimiter in place. A line with an odd number of quotes goes on in the next one.
#include "io/dataset/csv_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>

#include "kan/error.hpp"

namespace kan::io {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr std::size_t kLongest = std::size_t{16} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool equal_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(
      text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
        return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
      });
}

/// Number of fields that a delimiter cuts a line into, quotes respected.
std::size_t count_fields(std::string_view line, char delimiter) {
  std::size_t count = 1;
  bool quoted = false;
  if (delimiter == ' ') line = trim(line);
  for (std::size_t n = 0; n < line.size(); ++n) {
    if (line[n] == '"') quoted = !quoted;
    const bool cut = delimiter == ' ' ? is_blank(line[n]) && !is_blank(line[n - 1])
                                      : line[n] == delimiter;
    if (cut && !quoted) ++count;
  }
  return count;
}

}  // namespace

CsvReader::CsvReader(const std::string& path) : path_(path), file_(nullptr, std::fclose) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw Error(Code::data, path + ": no such file; check the path");
  }
  if (std::filesystem::is_directory(status)) {
    throw Error(Code::data, path + ": is a directory, a CSV file is needed");
  }
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) {
    throw Error(Code::data, fmt::format("{}: cannot be read ({}); check its permissions",
                                        path, std::strerror(errno)));
  }
  if (!fill()) throw Error(Code::data, path + ": the file is empty");
  if (buffer_.starts_with("\xef\xbb\xbf")) at_ = 3;
  if (buffer_.starts_with("\xff\xfe") || buffer_.starts_with("\xfe\xff")) {
    fail(1, "the text is UTF-16; save it as UTF-8");
  }
  detect_delimiter();
}

void CsvReader::fail(std::int64_t line, const std::string& what) const {
  throw Error(Code::data, fmt::format("{}:{}: {}", path_, line, what));
}

bool CsvReader::fill() {
  if (ended_) return false;
  buffer_.erase(0, at_);
  at_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kBlock);
  const std::size_t got = std::fread(buffer_.data() + before, 1, kBlock, file_.get());
  buffer_.resize(before + got);
  if (got == 0) {
    if (std::ferror(file_.get())) {
      throw Error(Code::data,
                  fmt::format("{}: reading failed ({})", path_, std::strerror(errno)));
    }
    ended_ = true;
  }
  return got > 0;
}

/// The tab, semicolon or comma that cuts the first two lines into the same number of
/// fields, else blanks; a delimiter of the first line alone where no second one agrees.
void CsvReader::detect_delimiter() {
  std::vector<std::string_view> lines;
  const std::string_view text = std::string_view(buffer_).substr(at_);
  for (std::size_t from = 0; from < text.size() && lines.size() < 2;) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string_view line = text.substr(from, end - from);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!trim(line).empty()) lines.push_back(line);
    from = end + 1;
  }
  if (lines.empty()) return;
  char fallback = '\0';
  for (const char candidate : {'\t', ';', ',', ' '}) {
    const std::size_t fields = count_fields(lines[0], candidate);
    if (fields < 2) continue;
    if (lines.size() < 2 || count_fields(lines[1], candidate) == fields) {
      delimiter_ = candidate;
      return;
    }
    if (fallback == '\0' && candidate != ' ') fallback = candidate;
  }
  if (fallback != '\0') delimiter_ = fallback;
}

bool CsvReader::take_record(std::string_view& record, bool& quoted) {
  std::size_t scanned = 0, quotes = 0;
  line_ = next_line_;
  for (;;) {
    const char* start = buffer_.data() + at_ + scanned;
    const std::size_t left = buffer_.size() - at_ - scanned;
    const auto* end =
        left == 0 ? nullptr : static_cast<const char*>(std::memchr(start, '\n', left));
    const std::size_t length =
        end != nullptr ? static_cast<std::size_t>(end - start) : left;
    if (end == nullptr && !ended_) {
      if (left + scanned > kLongest) {
        fail(line_, "more than 16 MiB without the end of a line: not a table of numbers");
      }
      fill();
      continue;
    }
    if (left == 0 && scanned == 0) return false;
    quotes += static_cast<std::size_t>(std::count(start, start + length, '"'));
    scanned += length;
    const bool last = end == nullptr;
    if (last || quotes % 2 == 0) {
      if (quotes % 2 != 0) fail(line_, "a quote is opened and never closed");
      record = std::string_view(buffer_).substr(at_, scanned);
      at_ += scanned + (last ? 0 : 1);
      next_line_ += 1;
      if (record.ends_with('\r')) record.remove_suffix(1);
      quoted = quotes > 0;
      return true;
    }
    scanned += 1;
    next_line_ += 1;
    if (scanned > kLongest) fail(line_, "a quote is opened and not closed within 16 MiB");
  }
}

bool CsvReader::next(std::vector<std::string_view>& fields) {
  std::string_view record;
  bool quoted = false;
  const char* blanks = delimiter_ == '\t' ? " " : " \t";  // tabs alone are empty fields
  do {
    if (!take_record(record, quoted)) return false;
  } while (record.find_first_not_of(blanks) == std::string_view::npos);
  if (record.find('\0') != std::string_view::npos) {
    fail(line_, "holds a zero byte: not a text file");
  }
  fields.clear();
  if (quoted) {
    split_quoted(record, fields);
  } else {
    split_plain(record, fields);
  }
  return true;
}

void CsvReader::split_plain(std::string_view record,
                            std::vector<std::string_view>& fields) const {
  if (delimiter_ == ' ') record = trim(record);
  for (;;) {
    const std::size_t cut =
        delimiter_ == ' ' ? record.find_first_of(" \t") : record.find(delimiter_);
    fields.push_back(trim(record.substr(0, cut)));
    if (cut == std::string_view::npos) return;
    record.remove_prefix(cut + 1);
    if (delimiter_ == ' ') record = trim(record);
  }
}

void CsvReader::split_quoted(std::string_view record,
                             std::vector<std::string_view>& fields) {
  unquoted_.clear();
  std::vector<std::size_t> places;  // fields whose text is in unquoted_, which may move
  for (;;) {
    // Blanks before a quote are let go, unless they are the delimiter.
    std::string_view rest = record;
    while (!rest.empty() && is_blank(rest.front()) && rest.front() != delimiter_) {
      rest.remove_prefix(1);
    }
    if (delimiter_ == ' ') rest = record = trim(record);
    if (!rest.starts_with('"')) {
      const std::size_t cut =
          delimiter_ == ' ' ? record.find_first_of(" \t") : record.find(delimiter_);
      fields.push_back(trim(record.substr(0, cut)));
      if (cut == std::string_view::npos) break;
      record.remove_prefix(cut + 1);
      continue;
    }
    std::string text;
    rest.remove_prefix(1);
    for (;;) {
      const std::size_t quote = rest.find('"');
      if (quote == std::string_view::npos)
        fail(line_, "a quote is opened and never closed");
      text.append(rest.substr(0, quote));
      rest.remove_prefix(quote + 1);
      if (!rest.starts_with('"')) break;
      text.push_back('"');
      rest.remove_prefix(1);
    }
    places.push_back(fields.size());
    fields.emplace_back();
    unquoted_.push_back(std::move(text));
    if (delimiter_ != ' ') {
      while (!rest.empty() && is_blank(rest.front()) && rest.front() != delimiter_) {
        rest.remove_prefix(1);
      }
    }
    if (rest.empty()) break;
    const bool cut =
        delimiter_ == ' ' ? is_blank(rest.front()) : rest.front() == delimiter_;
    if (!cut)
      fail(line_,
           fmt::format("field {} has text after its closing quote", fields.size()));
    record = rest.substr(1);
  }
  for (std::size_t n = 0; n < places.size(); ++n) fields[places[n]] = unquoted_[n];
}

Field parse_field(std::string_view field, double& value) {
  value = std::numeric_limits<double>::quiet_NaN();
  for (const char* word : {"", "na", "n/a", "nan", "null"}) {
    if (equal_ignoring_case(field, word)) return Field::missing;
  }
  std::string_view digits = field;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  double read = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, failure] = std::from_chars(digits.data(), end, read);
  if (stop != end || failure == std::errc::invalid_argument) return Field::text;
  if (failure == std::errc::result_out_of_range) {
    read =
        std::strtod(std::string(digits).c_str(), nullptr);  // infinity, or next to zero
  }
  value = read;
  return Field::number;
}

}  // namespace kan::io
