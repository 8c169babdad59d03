#include "io/dataset/stream.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>

#include "io/dataset/digest.hpp"
#include "io/dataset/hdf5_source.hpp"
#include "io/dataset/scaling.hpp"
#include "kan/error.hpp"
#include "parallel/first_error.hpp"

namespace kan::io {

namespace {

using Statistics = std::vector<ColumnStatistics>;

/// What the pass finds in one section.
struct Section {
  std::array<std::uint64_t, 4> digest{};  ///< of inputs, of targets
  Statistics columns;                     ///< inputs, then targets
};

/// Enough sections for many ranks, few enough that all fit into one message.
std::int64_t section_count(std::int64_t chunks, std::int64_t columns) {
  constexpr std::int64_t kMost = 4096, kBytes = 16 << 20;
  const std::int64_t fit = kBytes / (columns * std::int64_t(sizeof(ColumnStatistics)));
  return std::min(chunks, std::clamp<std::int64_t>(fit, 16, kMost));
}

void add(Statistics& to, const Statistics& columns, std::size_t first) {
  for (std::size_t c = 0; c < columns.size(); ++c) to[first + c].add(columns[c]);
}

/// Reads the chunks of a section. statistics: whether they are wanted.
Section pass_section(StreamReader& reader, const std::vector<RowBlock>& chunks,
                     const parallel::Range& own, const DataShape& shape,
                     bool statistics) {
  Section out;
  out.columns.resize(static_cast<std::size_t>(shape.inputs + shape.targets));
  DataDigest x, y;
  for (std::int64_t k = own.begin; k < own.end; ++k) {
    reader.read(chunks[static_cast<std::size_t>(k)], [&](StreamReader::Piece& piece) {
      x.add(piece.x.data(), piece.x.size() * sizeof(double));
      y.add(piece.y.data(), piece.y.size() * sizeof(double));
      if (!statistics) return true;
      add(out.columns, column_statistics(piece.x, shape.inputs), 0);
      add(out.columns, column_statistics(piece.y, shape.targets),
          static_cast<std::size_t>(shape.inputs));
      return true;
    });
  }
  const auto [x0, x1] = x.value();
  const auto [y0, y1] = y.value();
  out.digest = {x0, x1, y0, y1};
  return out;
}

/// Values of all ranks' sections, in the order of the sections.
template <class Value>
std::vector<Value> gather(parallel::Communicator& communicator, std::int64_t sections,
                          const std::vector<Value>& own, std::size_t per_section) {
  std::vector<std::size_t> counts;
  for (int r = 0; r < communicator.size(); ++r)
    counts.push_back(static_cast<std::size_t>(
                         parallel::share(sections, communicator.size(), r).size()) *
                     per_section);
  std::vector<Value> all(static_cast<std::size_t>(sections) * per_section);
  communicator.allgatherv(std::span<const Value>(own), std::span<Value>(all), counts);
  return all;
}

/// Keeps blocks of the file as a set.
DataSet keep_rows(StreamReader& reader, const std::vector<RowBlock>& blocks,
                  const DataSet& like) {
  DataSet set = like;
  for (const RowBlock& block : blocks) {
    reader.read(block, [&](StreamReader::Piece& piece) {
      set.x.insert(set.x.end(), piece.x.begin(), piece.x.end());
      set.y.insert(set.y.end(), piece.y.begin(), piece.y.end());
      for (std::int64_t r = 0; r < piece.rows; ++r) set.row_id.push_back(piece.begin + r);
      return true;
    });
    set.rows += block.rows;
  }
  return set;
}

std::int64_t rows_of(const std::vector<RowBlock>& blocks) {
  std::int64_t rows = 0;
  for (const RowBlock& block : blocks) rows += block.rows;
  return rows;
}

/// Error 3 where the ranks do not see a file of the same size and cut.
void compare_files(parallel::Communicator& communicator, const Hdf5Source& source) {
  const std::array<std::int64_t, 3> own{source.range().begin, source.range().end,
                                        source.chunk_rows()};
  const auto all = communicator.allgather(own);
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw Error(
        Code::data,
        fmt::format("{}: rank {} sees {} rows, rank 0 {}: do all ranks see the "
                    "same data/file?",
                    source.path(), r, all[r][1] - all[r][0], all[0][1] - all[0][0]));
  }
}

/// The pass: digest of the training rows, and their statistics.
Statistics pass(StreamReader& reader, const StreamedData& stream, const DataShape& shape,
                parallel::Communicator& communicator, bool wanted, DataDigest& digest) {
  const auto chunks = static_cast<std::int64_t>(stream.chunks.size());
  const std::int64_t columns = shape.inputs + shape.targets;
  const std::int64_t sections = section_count(chunks, columns);
  const parallel::Range own =
      parallel::share(sections, communicator.size(), communicator.rank());
  std::vector<std::array<std::uint64_t, 4>> digests;
  Statistics statistics;
  std::optional<Error> failed;
  try {
    for (std::int64_t s = own.begin; s < own.end; ++s) {
      const Section section = pass_section(
          reader, stream.chunks, parallel::share(chunks, sections, s), shape, wanted);
      digests.push_back(section.digest);
      statistics.insert(statistics.end(), section.columns.begin(), section.columns.end());
    }
  } catch (const Error& error) {
    failed = error;
  }
  parallel::throw_first(communicator, failed, reader.failed_row());
  const std::int64_t sizes[] = {stream.rows, shape.inputs, shape.targets};
  digest.add(sizes, sizeof sizes);
  const auto all = gather(communicator, sections, digests, 1);
  digest.add(all.data(), all.size() * sizeof all[0]);
  Statistics total(static_cast<std::size_t>(columns));
  if (!wanted) return total;
  const Statistics parts =
      gather(communicator, sections, statistics, static_cast<std::size_t>(columns));
  for (std::size_t k = 0; k < parts.size(); ++k) total[k % total.size()].add(parts[k]);
  return total;
}

/// What changes where a file is written to or cut; zeros where it is gone.
std::array<std::int64_t, 3> version_of(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return {};
  return {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
}

}  // namespace

bool must_stream(const DataOptions& options, const DataShape& shape,
                 parallel::Communicator& communicator) {
  if (options.source != "hdf5") return false;
  std::int64_t stream = 0;
  std::optional<Error> failed;
  if (communicator.rank() == 0) {
    try {
      check_options(options, shape);
      const RowRange range = Hdf5Source(shape, training_request(options)).range();
      stream = more_than_replicated(range.end - range.begin, shape, options) ? 1 : 0;
    } catch (const Error& error) {
      failed = error;
    }
  }
  parallel::throw_first(communicator, failed, 0);
  communicator.broadcast(std::span<std::int64_t>(&stream, 1));
  return stream != 0;
}

StreamedData open_stream(const DataOptions& options, const DataShape& shape,
                         parallel::Communicator& communicator,
                         const Scaling* input_scaling, const Scaling* target_scaling) {
  const auto start = std::chrono::steady_clock::now();
  StreamReader reader(options, shape);
  const Hdf5Source& source = reader.source();
  compare_files(communicator, source);
  StreamedData stream;
  Data& data = stream.data;
  stream.chunk_rows =
      stream_chunk_rows(shape.inputs + shape.targets, source.chunk_rows());
  StreamSplit split =
      split_chunks(source.range(), stream.chunk_rows, options.validation.fraction,
                   options.test.fraction, options.seed);
  check_bytes("data/validation", rows_of(split.validation), shape, options);
  check_bytes("data/test", rows_of(split.test), shape, options);
  stream.chunks = std::move(split.train);
  stream.rows = rows_of(stream.chunks);
  data.train.inputs = shape.inputs;
  data.train.targets = shape.targets;
  data.train.input_names = source.input_names();
  data.train.target_names = source.target_names();

  DataDigest digest;
  const bool scaled = options.scale_inputs != ScalingKind::none ||
                      options.scale_targets != ScalingKind::none;
  const Statistics columns = pass(reader, stream, shape, communicator,
                                  scaled && input_scaling == nullptr, digest);
  data.validation = keep_rows(reader, split.validation, data.train);
  data.test = keep_rows(reader, split.test, data.train);
  read_set_files(options, shape, data);
  digest.add(data.validation);
  digest.add(data.test);
  data.digest = kStreamedDigest + digest.text();

  const auto middle = columns.begin() + shape.inputs;
  scale(data,
        input_scaling
            ? *input_scaling
            : fit_scaling(options.scale_inputs, {columns.begin(), middle}, shape.grid_low,
                          shape.grid_high, data.train.input_names),
        target_scaling
            ? *target_scaling
            : fit_scaling(options.scale_targets, {middle, columns.end()}, shape.grid_low,
                          shape.grid_high, data.train.target_names),
        shape);
  stream.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return stream;
}

StreamReader::StreamReader(const DataOptions& options, const DataShape& shape)
    : shape_(shape),
      source_(std::make_unique<const Hdf5Source>(shape, training_request(options))) {
  if (options.nonfinite == Nonfinite::drop)
    throw Error(Code::usage,
                "data/nonfinite: drop is not possible for rows that are streamed from "
                "their file; take such rows out of the file, or raise "
                "data/replicate_below");
  version_ = version_of(source_->path());
}

StreamReader::~StreamReader() = default;

const RowRange& StreamReader::range() const { return source_->range(); }

// HDF5 reads what a file has lost as zeros.
void StreamReader::check_unchanged() const {
  if (version_of(source_->path()) == version_) return;
  throw Error(Code::data,
              fmt::format("{}: the file was changed while its rows were streamed; start "
                          "again with a file that stays as it is",
                          source_->path()));
}

bool StreamReader::read(const RowBlock& block, const std::function<bool(Piece&)>& use) {
  const std::int64_t most = piece_rows(shape_.inputs + shape_.targets);
  const std::int64_t end = block.begin + block.rows;
  for (std::int64_t at = block.begin; at < end; at += piece_.rows) {
    failed_row_ = piece_.begin = at;
    piece_.rows = std::min(most, end - at);
    piece_.x.resize(static_cast<std::size_t>(piece_.rows * shape_.inputs));
    piece_.y.resize(static_cast<std::size_t>(piece_.rows * shape_.targets));
    source_->read(at, at + piece_.rows, piece_.x.data(), piece_.y.data());
    check_unchanged();
    for (std::int64_t r = 0; r < piece_.rows; ++r) {
      const auto bad =
          find_bad_value(&piece_.x[static_cast<std::size_t>(r * shape_.inputs)],
                         &piece_.y[static_cast<std::size_t>(r * shape_.targets)], shape_);
      if (!bad) continue;
      failed_row_ = at + r;
      throw Error(Code::data,
                  fmt::format("{} {}; correct it{}",
                              source_->where(failed_row_, bad->column), bad->objection,
                              std::isfinite(bad->value) ? ", or network/widths" : ""));
    }
    if (!use(piece_)) return false;
  }
  return true;
}

}  // namespace kan::io
