// Records of a delimited text file (RFC 4180): quoted fields with doubled quotes and line
// breaks inside, LF or CRLF, a byte order mark, and a delimiter found from the text (tab,
// semicolon, comma, or runs of blanks). The file is read in blocks; one record is held.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kan::io {

class CsvReader {
 public:
  /// Opens and detects the delimiter. Errors 3: missing, a directory, empty, unreadable.
  explicit CsvReader(const std::string& path);

  /// Next record that is not blank; false at the end. Fields are trimmed of blanks unless
  /// quoted, and stay valid until the next call. Errors 3, with file:line: a quote that
  /// is not closed or followed by text, a zero byte, a record of more than 16 MiB.
  bool next(std::vector<std::string_view>& fields);

  /// Line (from 1) at which the record of the last next() began.
  std::int64_t line() const { return line_; }
  const std::string& path() const { return path_; }
  char delimiter() const { return delimiter_; }  ///< ' ' for runs of blanks

 private:
  bool fill();
  bool take_record(std::string_view& record, bool& quoted);
  void split_plain(std::string_view record, std::vector<std::string_view>& fields) const;
  void split_quoted(std::string_view record, std::vector<std::string_view>& fields);
  void detect_delimiter();
  [[noreturn]] void fail(std::int64_t line, const std::string& what) const;

  std::string path_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
  std::string buffer_;  ///< bytes read and not yet handed out from at_ on
  std::size_t at_ = 0;
  bool ended_ = false;
  char delimiter_ = ',';
  std::int64_t line_ = 0, next_line_ = 1;
  std::vector<std::string> unquoted_;  ///< text of quoted fields of the current record
};

/// How a field reads as a number.
enum class Field { number, missing, text };

/// Whole-token std::from_chars, with a leading + allowed. Missing: empty, NA, N/A, nan,
/// null in any case; value is NaN then. Too large: infinity.
Field parse_field(std::string_view field, double& value);

}  // namespace kan::io
