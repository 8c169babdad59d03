#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "io/dataset/hdf5_source.hpp"
#include "kan/error.hpp"

namespace kan::io {

namespace {

void inspect(const Hdf5File& file, const std::string& name) {
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
}

}  // namespace

Hdf5Source::Parts Hdf5Source::open_all(const std::vector<std::string>& names,
                                       const std::string& key) const {
  if (names.empty()) {
    throw Error(Code::usage,
                fmt::format("data/{}: missing; give the path of a dataset in {}", key,
                            file_.path()));
  }
  Parts parts;
  for (const std::string& name : names) {
    inspect(file_, name);
    parts.emplace_back(file_, name);
  }
  return parts;
}

Hdf5Source::Hdf5Source(const DataShape& shape, const SourceRequest& request)
    : file_(Hdf5File::open(request.file)),
      inputs_(open_all(request.inputs, request.key + "inputs")),
      targets_(open_all(request.targets, request.key + "targets")) {
  const std::int64_t rows = inputs_[0].rows();
  for (const Parts* parts : {&inputs_, &targets_}) {
    for (const Hdf5Rows& part : *parts) {
      if (part.rows() == rows) continue;
      throw Error(Code::data,
                  fmt::format("{}: dataset '{}' has {} rows, '{}' has {}; the rows of "
                              "inputs and targets belong together",
                              path(), inputs_[0].name(), rows, part.name(), part.rows()));
    }
  }
  check_columns(path(), columns_of(inputs_), columns_of(targets_), shape);
  if (rows == 0) {
    throw Error(Code::data,
                fmt::format("{}: dataset '{}' has no rows", path(), inputs_[0].name()));
  }
  range_ = check_range(path(), request.row_range, rows);
}

std::int64_t Hdf5Source::chunk_rows() const {
  std::int64_t most = 0;
  for (const Parts* parts : {&inputs_, &targets_})
    for (const Hdf5Rows& part : *parts) most = std::max(most, part.chunk_rows());
  return most;
}

std::int64_t Hdf5Source::columns_of(const Parts& parts) {
  return std::accumulate(
      parts.begin(), parts.end(), std::int64_t{0},
      [](std::int64_t sum, const Hdf5Rows& part) { return sum + part.columns(); });
}

std::vector<std::string> Hdf5Source::names_of(const Parts& parts) {
  std::vector<std::string> out;
  for (const Hdf5Rows& part : parts) {
    for (std::int64_t c = 0; c < part.columns(); ++c) {
      out.push_back(part.columns() == 1 ? part.name()
                                        : fmt::format("{}[{}]", part.name(), c));
    }
  }
  return out;
}

void Hdf5Source::read_parts(const Parts& parts, std::int64_t begin, std::int64_t end,
                            double* out) {
  if (parts.size() == 1) return parts[0].read(begin, end, out);
  const std::int64_t rows = end - begin, columns = columns_of(parts);
  std::vector<double> values;
  for (const Hdf5Rows& part : parts) {
    const std::int64_t own = part.columns();
    values.resize(static_cast<std::size_t>(rows * own));
    part.read(begin, end, values.data());
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(values.data() + r * own, own, out + r * columns);
    out += own;
  }
}

void Hdf5Source::read(std::int64_t begin, std::int64_t end, double* x, double* y) const {
  read_parts(inputs_, begin, end, x);
  read_parts(targets_, begin, end, y);
}

std::string Hdf5Source::where(std::int64_t row, int column) const {
  std::int64_t at = column;
  for (const Parts* parts : {&inputs_, &targets_}) {
    for (const Hdf5Rows& part : *parts) {
      if (at < part.columns())
        return fmt::format("{}: dataset '{}' row {} column {}", path(), part.name(), row,
                           at);
      at -= part.columns();
    }
  }
  return fmt::format("{}: row {} column {}", path(), row, column);
}

SourceRows read_hdf5(const DataOptions& options, const DataShape& shape,
                     const SourceRequest& request) {
  const auto source = std::make_shared<const Hdf5Source>(shape, request);
  const RowRange range = source->range();
  SourceRows out;
  DataSet& set = out.set;
  set.rows = range.end - range.begin;
  set.inputs = shape.inputs;
  set.targets = shape.targets;
  check_bytes(source->path(), set.rows, shape, options);
  set.x.resize(static_cast<std::size_t>(set.rows * set.inputs));
  set.y.resize(static_cast<std::size_t>(set.rows * set.targets));
  source->read(range.begin, range.end, set.x.data(), set.y.data());
  set.input_names = source->input_names();
  set.target_names = source->target_names();
  set.row_id.resize(static_cast<std::size_t>(set.rows));
  std::iota(set.row_id.begin(), set.row_id.end(), range.begin);
  out.where = [source, first = range.begin](std::int64_t row, int column) {
    return source->where(first + row, column);
  };
  return out;
}

}  // namespace kan::io
