// Values of the data block that are more than a number or a word, and the checks that all
// sources share.
#include <fmt/format.h>

#include <charconv>

#include "io/dataset/source.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

/// A whole token of digits; fallback where it is empty.
bool parse_row(const std::string& text, std::int64_t fallback, std::int64_t& value) {
  value = fallback;
  if (text.empty()) return true;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc() && stop == end && value >= 0;
}

double bytes_of(std::int64_t rows, const DataShape& shape) {
  return 8.0 * static_cast<double>(rows) *
         (static_cast<double>(shape.inputs) + static_cast<double>(shape.targets));
}

}  // namespace

RowRange parse_row_range(const std::string& text) {
  RowRange range;
  if (text.empty()) return range;
  const std::size_t colon = text.find(':');
  const bool good = colon != std::string::npos &&
                    parse_row(text.substr(0, colon), 0, range.begin) &&
                    parse_row(text.substr(colon + 1), -1, range.end) &&
                    (range.end < 0 || range.begin < range.end);
  if (!good) {
    throw Error(Code::usage,
                fmt::format("data/row_range: '{}' is not a range of rows; give "
                            "first:end, counted from 0, end not included (0:1000)",
                            text));
  }
  return range;
}

void set_fraction_or_file(SetOptions& set, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  const bool number = failure == std::errc() && stop == end && !text.empty();
  set.fraction = number ? value : 0;
  set.file = number ? "" : text;
}

void check_columns(const std::string& file, std::int64_t inputs, std::int64_t targets,
                   const DataShape& shape) {
  if (inputs != shape.inputs) {
    throw Error(Code::data,
                fmt::format("{}: data/inputs are {} columns, the network takes {} "
                            "(first of network/widths)",
                            file, inputs, shape.inputs));
  }
  if (targets == shape.targets) return;
  throw Error(
      Code::data,
      shape.classes > 0
          ? fmt::format("{}: data/targets are {} columns; class labels are one", file,
                        targets)
          : fmt::format("{}: data/targets are {} columns, the network gives {} (last of "
                        "network/widths; for class labels set optimizer/loss = "
                        "cross_entropy)",
                        file, targets, shape.targets));
}

bool more_than_replicated(std::int64_t rows, const DataShape& shape,
                          const DataOptions& options) {
  return bytes_of(rows, shape) > static_cast<double>(options.replicate_below);
}

void check_bytes(const std::string& what, std::int64_t rows, const DataShape& shape,
                 const DataOptions& options) {
  if (!more_than_replicated(rows, shape, options)) return;
  const char* convert = options.source == "csv"
                            ? ", or convert the file to HDF5, which is streamed"
                        : options.source == "function"
                            ? ", or write the rows to an HDF5 file, which is streamed"
                            : "";
  const bool small = options.replicate_below < std::int64_t{1} << 20;
  const double unit = small ? 1024.0 : 1048576.0;
  throw Error(Code::device,
              fmt::format("{}: {} rows of {} values take {:.1f} {} on every rank, more "
                          "than data/replicate_below ({:.1f} {}); raise it where the "
                          "memory is there, or use fewer rows{}",
                          what, rows, shape.inputs + shape.targets,
                          bytes_of(rows, shape) / unit, small ? "KiB" : "MiB",
                          static_cast<double>(options.replicate_below) / unit,
                          small ? "KiB" : "MiB", convert));
}

RowRange check_range(const std::string& file, RowRange range, std::int64_t rows) {
  const std::int64_t end = range.end < 0 ? rows : range.end;
  if (range.begin >= 0 && range.begin < end && end <= rows) return {range.begin, end};
  throw Error(Code::data,
              fmt::format("{}: data/row_range {}:{} is not inside the rows 0:{}", file,
                          range.begin, end, rows));
}

}  // namespace kan::io
