// Rows from CSV files: columns chosen by name or by number (from 1), a header that is
// found by itself, a split column, missing values as NaN. Only chosen columns need to be
// numbers. Messages name file:line and the column, as editors show them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "io/dataset/csv_reader.hpp"
#include "io/dataset/source.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

using Fields = std::vector<std::string_view>;

/// The columns of a file and how they are called.
struct Columns {
  std::string path;
  std::vector<std::string> names;  ///< empty where there is no header
  int count = 0;

  std::string called(int column) const {
    if (names.empty()) return fmt::format("column {}", column + 1);
    return fmt::format("column {} '{}'", column + 1,
                       names[static_cast<std::size_t>(column)]);
  }

  /// Column whose number (from 1) is `text`; -1 where there is none.
  int numbered(const std::string& text) const {
    int number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failure] = std::from_chars(text.data(), end, number);
    const bool good =
        failure == std::errc() && stop == end && number >= 1 && number <= count;
    return good ? number - 1 : -1;
  }

  bool has(const std::string& text) const {
    return numbered(text) >= 0 ||
           std::find(names.begin(), names.end(), text) != names.end();
  }

  /// Index of the column that the deck calls `text`.
  int find(const std::string& text, const std::string& key) const {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found != names.end()) {
      if (std::find(found + 1, names.end(), text) != names.end()) {
        throw Error(Code::data,
                    fmt::format("{}: two columns are called '{}'; give the number "
                                "(from 1) in data/{}",
                                path, text, key));
      }
      return static_cast<int>(found - names.begin());
    }
    const int column = numbered(text);
    if (column >= 0) return column;
    throw Error(
        Code::data,
        fmt::format(
            "{}: data/{}: there is no column '{}'; give a {}number from 1 to {}{}", path,
            key, text, names.empty() ? "" : "name or a ", count,
            names.empty() ? " (the file has no header)"
                          : fmt::format("; the names are {}", fmt::join(names, ", "))));
  }
};

/// Whether the first record is a header; error where it cannot be told.
bool is_header(const Fields& first, HasHeader wanted, const CsvReader& reader) {
  if (wanted != HasHeader::automatic) return wanted == HasHeader::yes;
  double value = 0;
  int numbers = 0;
  std::string_view text;
  for (const std::string_view field : first) {
    const Field kind = parse_field(field, value);
    if (kind == Field::number) ++numbers;
    if (kind == Field::text && text.empty()) text = field;
  }
  if (text.empty()) return false;
  if (numbers == 0) return true;
  throw Error(Code::data,
              fmt::format("{}:{}: some fields are numbers and some are not ('{}'): set "
                          "data/has_header to yes or no",
                          reader.path(), reader.line(), text.substr(0, 40)));
}

struct Chosen {
  std::vector<int> columns;  ///< inputs, then targets
  int inputs = 0, targets = 0;
  int split = -1;
};

Chosen choose(const Columns& columns, const SourceRequest& request) {
  Chosen out;
  // A validation file need not have the column; where it does, it is not an input.
  const std::string& split = request.split_column;
  if (!split.empty() && (request.key.empty() || columns.has(split))) {
    out.split = columns.find(split, "split_column");
  }
  if (request.targets.empty()) {
    throw Error(Code::usage,
                fmt::format("data/{}targets: missing; give the columns of {} by name "
                            "or number (from 1)",
                            request.key, columns.path));
  }
  std::vector<int> targets;
  for (const auto& text : request.targets) {
    targets.push_back(columns.find(text, request.key + "targets"));
  }
  for (const auto& text : request.inputs) {
    out.columns.push_back(columns.find(text, request.key + "inputs"));
  }
  if (request.inputs.empty()) {
    for (int c = 0; c < columns.count; ++c) {
      const bool target = std::find(targets.begin(), targets.end(), c) != targets.end();
      if (!target && c != out.split) out.columns.push_back(c);
    }
  }
  out.inputs = static_cast<int>(out.columns.size());
  out.targets = static_cast<int>(targets.size());
  out.columns.insert(out.columns.end(), targets.begin(), targets.end());
  return out;
}

double number_at(const CsvReader& reader, const Columns& columns, const Fields& fields,
                 int column) {
  const std::string_view field = fields[static_cast<std::size_t>(column)];
  double value = 0;
  if (parse_field(field, value) == Field::text) {
    const bool comma = field.find(',') != std::string_view::npos;
    throw Error(Code::data,
                fmt::format("{}:{}: {}: '{}' is not a number{}", reader.path(),
                            reader.line(), columns.called(column), field.substr(0, 40),
                            comma ? " (the decimal mark is a point)" : ""));
  }
  return value;
}

bool test_row(const CsvReader& reader, const Columns& columns, const Fields& fields,
              int split) {
  const double value = number_at(reader, columns, fields, split);
  if (value == 0 || value == 1) return value == 1;
  throw Error(Code::data,
              fmt::format("{}:{}: {}: '{}' is neither 0 (train) nor 1 (test)",
                          reader.path(), reader.line(), columns.called(split),
                          fields[static_cast<std::size_t>(split)].substr(0, 40)));
}

}  // namespace

SourceRows read_csv(const DataOptions& options, const DataShape& shape,
                    const SourceRequest& request) {
  CsvReader reader(request.file);
  Columns columns;
  columns.path = request.file;
  Fields fields;
  bool more = reader.next(fields);
  if (!more) throw Error(Code::data, request.file + ": the file holds blank lines only");
  columns.count = static_cast<int>(fields.size());
  const std::int64_t first_line = reader.line();
  if (is_header(fields, options.has_header, reader)) {
    columns.names.assign(fields.begin(), fields.end());
    more = reader.next(fields);
    if (!more)
      throw Error(Code::data, request.file + ": there is a header and no row after it");
  }
  const Chosen chosen = choose(columns, request);
  check_columns(request.file, chosen.inputs, chosen.targets, shape);

  SourceRows out;
  DataSet& set = out.set;
  set.inputs = shape.inputs;
  set.targets = shape.targets;
  std::vector<std::int64_t> lines;
  std::int64_t row = 0;
  const RowRange wanted = request.row_range;
  for (; more; more = reader.next(fields), ++row) {
    if (static_cast<int>(fields.size()) != columns.count) {
      throw Error(Code::data,
                  fmt::format("{}:{}: the line has {} field{}, line {} has {}",
                              reader.path(), reader.line(), fields.size(),
                              fields.size() == 1 ? "" : "s", first_line, columns.count));
    }
    if (row < wanted.begin || (wanted.end >= 0 && row >= wanted.end)) continue;
    for (int n = 0; n < chosen.inputs + chosen.targets; ++n) {
      const double value =
          number_at(reader, columns, fields, chosen.columns[static_cast<std::size_t>(n)]);
      (n < chosen.inputs ? set.x : set.y).push_back(value);
    }
    if (chosen.split >= 0)
      out.is_test.push_back(test_row(reader, columns, fields, chosen.split));
    lines.push_back(reader.line());
    set.row_id.push_back(row);
    if (lines.size() % 4096 == 0) {
      check_bytes(request.file, static_cast<std::int64_t>(lines.size()), shape, options);
    }
  }
  check_range(request.file, wanted, row);
  set.has_names = !columns.names.empty();
  set.rows = static_cast<std::int64_t>(lines.size());
  check_bytes(request.file, set.rows, shape, options);
  for (int n = 0; n < chosen.inputs + chosen.targets; ++n) {
    const int column = chosen.columns[static_cast<std::size_t>(n)];
    (n < chosen.inputs ? set.input_names : set.target_names)
        .push_back(columns.names.empty()
                       ? columns.called(column)
                       : columns.names[static_cast<std::size_t>(column)]);
  }
  out.where = [columns, chosen, lines](std::int64_t at, int column) {
    return fmt::format("{}:{}: {}", columns.path, lines[static_cast<std::size_t>(at)],
                       columns.called(chosen.columns[static_cast<std::size_t>(column)]));
  };
  return out;
}

}  // namespace kan::io
