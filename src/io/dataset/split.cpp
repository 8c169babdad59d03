// A sort by (key, row id) and a cut; see split.hpp.
#include "io/dataset/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kan/error.hpp"
#include "kan/random.hpp"

namespace kan::io {

namespace {

std::int64_t part_of(double fraction, std::int64_t rows, const char* key) {
  if (!(fraction >= 0 && fraction < 1)) {
    throw Error(Code::usage,
                fmt::format("data/{}: {} is not a fraction; 0 or more, less than 1", key,
                            fraction));
  }
  // 0.29 * 100 is 28.999999999999996 in binary, and meant as 29.
  const auto count = static_cast<std::int64_t>(
      std::floor(fraction * static_cast<double>(rows) * (1 + 1e-12)));
  if (fraction > 0 && count == 0) {
    throw Error(Code::usage,
                fmt::format("data/{}: {} of {} rows is not one row; give a larger "
                            "fraction",
                            key, fraction, rows));
  }
  return count;
}

}  // namespace

HeldOut held_out_rows(std::int64_t rows, double validation, double test) {
  const HeldOut out{part_of(validation, rows, "validation"), part_of(test, rows, "test")};
  if (out.validation + out.test >= rows) {
    throw Error(Code::usage,
                fmt::format("data/validation, data/test: {} and {} of {} rows leave "
                            "no training rows",
                            validation, test, rows));
  }
  return out;
}

Split split_rows(const std::vector<std::int64_t>& row_id, double validation, double test,
                 std::uint64_t seed) {
  const auto rows = static_cast<std::int64_t>(row_id.size());
  const auto [validation_rows, test_rows] = held_out_rows(rows, validation, test);
  struct Row {
    std::uint64_t key;
    std::int64_t id, index;
    bool operator<(const Row& other) const {
      return std::tie(key, id) < std::tie(other.key, other.id);
    }
  };
  Split out;
  std::vector<char> part(row_id.size(), 0);
  if (test_rows + validation_rows > 0) {
    std::vector<Row> order(row_id.size());
    for (std::int64_t n = 0; n < rows; ++n) {
      const std::int64_t id = row_id[static_cast<std::size_t>(n)];
      const auto key = random_bits(seed, random_stream(Purpose::data_split),
                                   static_cast<std::uint64_t>(id));
      order[static_cast<std::size_t>(n)] = {key, id, n};
    }
    std::sort(order.begin(), order.end());
    for (std::int64_t n = 0; n < test_rows + validation_rows; ++n) {
      const Row& row = order[static_cast<std::size_t>(n)];
      part[static_cast<std::size_t>(row.index)] = n < test_rows ? 2 : 1;
    }
  }
  for (std::int64_t n = 0; n < rows; ++n) {
    const char where = part[static_cast<std::size_t>(n)];
    (where == 2 ? out.test : where == 1 ? out.validation : out.train).push_back(n);
  }
  return out;
}

}  // namespace kan::io
