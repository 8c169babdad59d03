// The feed of training rows that are read from their file as they are needed
// (io/dataset/stream.hpp).
//
// A thread reads the next window of the epoch while the current one is trained on: of its
// P-th of the window's sequence each rank reads neighbouring rows of the file, scales
// them and puts them where they will be sent from. At the switch of windows one exchange
// sends every row to the rank in whose part of its batch it is. So a rank holds two
// windows of W/P rows, and which rows a batch is made of does not depend on ranks.
//
// The thread calls HDF5 and nothing of MPI or Kokkos; its errors are thrown at the
// switch, on all ranks.
#pragma once

#include <atomic>
#include <future>
#include <vector>

#include "io/dataset/stream.hpp"
#include "kan/row_feed.hpp"
#include "parallel/communicator.hpp"

namespace kan::run {

/// Bytes that a row of a window costs where one rank has all of it: twice its numbers
/// (columns of number_bytes each), and what says where it goes.
std::int64_t window_row_bytes(std::int64_t columns, std::int64_t number_bytes);

/// W: rows of a window, a multiple of those of one update, such that windows fit into
/// `bytes` on a single rank, and no more than hold all `rows`. Error 8 naming the keys
/// where not one update fits.
std::int64_t window_rows(std::int64_t bytes, std::int64_t columns,
                         std::int64_t number_bytes, std::int64_t update_rows,
                         std::int64_t rows);

struct StreamFeedOptions {
  std::uint64_t seed = 1;
  bool shuffle = true;
  std::int64_t update_rows = 1;  ///< of every batch but the epoch's last
  std::int64_t window_rows = 1;  ///< a multiple of update_rows
  RankParts parts;
};

template <class T>
class StreamFeed final : public RowFeed<T> {
 public:
  /// The communicator must outlive the feed. data: names the file; stream: its rows.
  StreamFeed(const io::DataOptions& data, const io::DataShape& shape,
             const io::StreamedData& stream, parallel::Communicator& communicator,
             const StreamFeedOptions& options);
  ~StreamFeed() override;

  std::int64_t rows() const override { return order_.rows(); }
  /// Windows begin at multiples of W; where an epoch goes on at a position that is not a
  /// multiple of update_rows, as with another batch than before, the rest is shifted by
  /// the remainder.
  void start_epoch(const Exec& exec, std::int64_t epoch, std::int64_t position) override;
  Batch<T> batch(const Exec& exec, std::int64_t position, std::int64_t rows,
                 const parallel::Range& own) override;

 private:
  struct Window {
    std::int64_t epoch = -1;
    parallel::Range positions;
    bool operator==(const Window&) const = default;
  };
  Window window_at(std::int64_t epoch, std::int64_t base, std::int64_t position) const;
  void start_reading(const Window& window);
  void stop_reading();
  void switch_to(const Exec& exec, const Window& window);
  void read(const Window& window);
  void plan(const Window& window, const parallel::Range& mine);
  void exchange(const Exec& exec);

  parallel::Communicator& communicator_;
  StreamFeedOptions options_;
  io::DataShape shape_;
  Scaling input_scaling_, target_scaling_;
  std::int64_t epoch_ = 0, base_ = 0;  ///< windows of the epoch begin at base_ + k W

  Window current_;  ///< in the views
  View2<T> inputs_, targets_;
  View1<std::uint32_t>
      order_of_rows_;  ///< own row of the window, by position -> view row

  // Of the window that is being read; the thread's until it has ended.
  Window next_;
  io::StreamReader reader_;
  io::StreamOrder order_;
  std::vector<T> send_x_, send_y_;
  std::vector<std::uint32_t> slot_;   ///< of a row read here, in send_*
  std::vector<std::uint32_t> place_;  ///< of an own row, among the rows received
  std::vector<std::size_t> send_rows_, receive_rows_;  ///< to and from each rank
  std::atomic<bool> stop_ = false;
  std::future<void> reading_;
};

extern template class StreamFeed<float>;
extern template class StreamFeed<double>;

}  // namespace kan::run
