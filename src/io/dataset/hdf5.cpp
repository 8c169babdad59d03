// Rows from HDF5: the datasets named in data/inputs, joined column by column, and those
// of data/targets. A dataset has shape (rows) for one column, or (rows, columns), and any
// numeric type. Rows are counted from 0, as h5py does.
#include "io/hdf5.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "io/dataset/source.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

/// One dataset and where its columns go.
struct Part {
  std::string name;
  std::int64_t rows = 0, columns = 1;
};

Part inspect(const Hdf5File& file, const std::string& name) {
  const Hdf5Info info = file.info(name);
  if (!info.numeric()) {
    throw Error(Code::data,
                fmt::format("{}: dataset '{}' does not hold numbers; name a dataset "
                            "of integers or reals",
                            file.path(), name));
  }
  if (info.shape.empty() || info.shape.size() > 2) {
    throw Error(
        Code::data,
        fmt::format("{}: dataset '{}' has shape {}; rows by columns are needed (one "
                    "dimension: one column)",
                    file.path(), name, shape_text(info.shape)));
  }
  return {name, info.shape[0], info.shape.size() == 2 ? info.shape[1] : 1};
}

std::vector<Part> inspect_all(const Hdf5File& file, const std::vector<std::string>& names,
                              const std::string& key) {
  if (names.empty()) {
    throw Error(Code::usage,
                fmt::format("data/{}: missing; give the path of a dataset in {}", key,
                            file.path()));
  }
  std::vector<Part> parts;
  for (const std::string& name : names) parts.push_back(inspect(file, name));
  return parts;
}

std::int64_t columns_of(const std::vector<Part>& parts) {
  return std::accumulate(
      parts.begin(), parts.end(), std::int64_t{0},
      [](std::int64_t sum, const Part& part) { return sum + part.columns; });
}

/// Rows of all parts side by side: (rows, columns).
std::vector<double> read_parts(const Hdf5File& file, const std::vector<Part>& parts,
                               RowRange range) {
  const std::int64_t rows = range.end - range.begin;
  if (parts.size() == 1)
    return file.read_rows<double>(parts[0].name, range.begin, range.end);
  const std::int64_t columns = columns_of(parts);
  std::vector<double> out(static_cast<std::size_t>(rows * columns));
  std::int64_t first = 0;
  for (const Part& part : parts) {
    const auto values = file.read_rows<double>(part.name, range.begin, range.end);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < part.columns; ++c) {
        out[static_cast<std::size_t>(r * columns + first + c)] =
            values[static_cast<std::size_t>(r * part.columns + c)];
      }
    }
    first += part.columns;
  }
  return out;
}

/// The part and its column that stand at a joined column.
std::pair<const Part*, std::int64_t> find_column(const std::vector<Part>& parts,
                                                 std::int64_t column) {
  for (const Part& part : parts) {
    if (column < part.columns) return {&part, column};
    column -= part.columns;
  }
  return {&parts.back(), column};
}

std::vector<std::string> names_of(const std::vector<Part>& parts) {
  std::vector<std::string> out;
  for (const Part& part : parts) {
    for (std::int64_t c = 0; c < part.columns; ++c) {
      out.push_back(part.columns == 1 ? part.name : fmt::format("{}[{}]", part.name, c));
    }
  }
  return out;
}

}  // namespace

SourceRows read_hdf5(const DataOptions& options, const DataShape& shape,
                     const SourceRequest& request) {
  const Hdf5File file = Hdf5File::open(request.file);
  const auto inputs = inspect_all(file, request.inputs, request.key + "inputs");
  const auto targets = inspect_all(file, request.targets, request.key + "targets");
  for (const auto* parts : {&inputs, &targets}) {
    for (const Part& part : *parts) {
      if (part.rows == inputs[0].rows) continue;
      throw Error(
          Code::data,
          fmt::format("{}: dataset '{}' has {} rows, '{}' has {}; the rows of "
                      "inputs and targets belong together",
                      file.path(), inputs[0].name, inputs[0].rows, part.name, part.rows));
    }
  }
  check_columns(file.path(), columns_of(inputs), columns_of(targets), shape);
  if (inputs[0].rows == 0) {
    throw Error(Code::data,
                fmt::format("{}: dataset '{}' has no rows", file.path(), inputs[0].name));
  }
  const RowRange range = check_range(file.path(), request.row_range, inputs[0].rows);

  SourceRows out;
  DataSet& set = out.set;
  set.rows = range.end - range.begin;
  set.inputs = shape.inputs;
  set.targets = shape.targets;
  check_bytes(file.path(), set.rows, shape, options);
  set.x = read_parts(file, inputs, range);
  set.y = read_parts(file, targets, range);
  set.input_names = names_of(inputs);
  set.target_names = names_of(targets);
  set.row_id.resize(static_cast<std::size_t>(set.rows));
  std::iota(set.row_id.begin(), set.row_id.end(), range.begin);
  out.where = [path = file.path(), inputs, targets, first = range.begin,
               count = set.inputs](std::int64_t row, int column) {
    const auto [part, at] = column < count ? find_column(inputs, column)
                                           : find_column(targets, column - count);
    return fmt::format("{}: dataset '{}' row {} column {}", path, part->name, first + row,
                       at);
  };
  return out;
}

}  // namespace kan::io
