// Which rows are for training, validation and test. A row's random key is a function of
// (seed, row id); the rows with the smallest keys are the test rows, the next ones the
// validation rows. The counts are exact: floor(fraction * rows), of the rows to be split.
#pragma once

#include <cstdint>
#include <vector>

namespace kan::io {

/// Rows of the two sets. Error 2 where a fraction is not in [0, 1), gives no row at all,
/// or no training row is left.
struct HeldOut {
  std::int64_t validation = 0, test = 0;
};
HeldOut held_out_rows(std::int64_t rows, double validation, double test);

/// Indices into row_id, each in ascending order; together all of them, once.
struct Split {
  std::vector<std::int64_t> train, validation, test;
};

/// Errors: held_out_rows.
Split split_rows(const std::vector<std::int64_t>& row_id, double validation, double test,
                 std::uint64_t seed);

}  // namespace kan::io
