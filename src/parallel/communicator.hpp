// What ranks say to each other: a small virtual interface, one implementation a file.
//
// Callers use the public functions, which check arguments, count and time; a backend
// implements the private do_* functions on raw memory. Every function is collective over
// the communicator unless it says otherwise, and every failure throws
// Error(Code::communication). No type of a message library appears here.
//
// A new backend is one file with a factory (see backends.hpp) and one line in the table
// of communicator.cpp. Buffers are host memory, except in the overloads that take an
// execution space: those take Views in kan::Memory and keep the order of its queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kan/types.hpp"
#include "parallel/algorithm.hpp"

namespace kan::parallel {

/// What may travel as bytes.
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_const_v<T>;

enum class Operation { allreduce, broadcast, allgatherv, alltoallv, sendrecv, barrier };
inline constexpr int kOperations = 6;

/// Totals of one kind of call on this rank. bytes: what this rank contributed (of a
/// broadcast: its payload). seconds: wall time spent inside, waiting included; shortest
/// and longest: of one call.
struct Statistics {
  std::int64_t calls = 0, bytes = 0;
  double seconds = 0;
  double shortest = 0, longest = 0;
};

enum class Element { float32, float64, int64 };
enum class Reduction { sum, max };

class Communicator;

/// A reduction under way. Its buffer must live and stay untouched until wait() returns.
/// The destructor waits, unless an exception is passing: then peers may be gone for good.
class Ticket {
 public:
  /// What a backend knows about the operation.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };

  Ticket() = default;
  Ticket(Ticket&& other) noexcept;
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket();
  /// Returns when the result is in the buffer on this rank; at once when there is none
  /// to wait for. Local: each rank waits for itself.
  void wait();

 private:
  friend class Communicator;
  Ticket(Communicator* owner, std::unique_ptr<Pending> pending);
  Communicator* owner_ = nullptr;
  std::unique_ptr<Pending> pending_;
  int exceptions_ = 0;
};

class Communicator {
 public:
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// The backend's name in the table: "serial", "mpi", "null", "nccl".
  const std::string& name() const { return name_; }
  /// Whether sums of gradients are left out, for measurements of what they cost.
  virtual bool silent() const { return false; }
  /// Who adds gradients fastest here. Messages in host memory: the tree, as libraries
  /// keep no deadline in the calls that they are fast in.
  virtual Algorithm preferred() const { return Algorithm::tree; }

  /// How device memory travels, for the log; empty where there is nothing to say.
  virtual std::string details() const { return {}; }

  /// Copies root's values to all; the same length everywhere.
  template <Plain T>
  void broadcast(std::span<T> values, int root = 0) {
    broadcast_bytes(std::as_writable_bytes(values), root);
  }
  /// Copies root's text, whatever its length, to all.
  void broadcast(std::string& text, int root = 0);

  /// Element-wise sum over ranks, in place, bit-equal on all ranks. The order of the
  /// additions is the backend's: see tree.hpp for sums that do not depend on it.
  void allreduce_sum(std::span<float> values);
  void allreduce_sum(std::span<double> values);
  void allreduce_sum(std::span<std::int64_t> values);
  void allreduce_max(std::span<double> values);
  void allreduce_max(std::span<std::int64_t> values);
  /// The same for a buffer where kernels run: after what was put into exec's queue
  /// before, finished when the call returns.
  void allreduce_sum(const Exec& exec, const View1<float>& values);
  void allreduce_sum(const Exec& exec, const View1<double>& values);
  /// The same, but it may return before the sum is finished: what is put into exec's
  /// queue later sees it. Where the host needs it, finish_sums() waits, with the
  /// deadline.
  void queue_sum(const Exec& exec, const View1<float>& values);
  void queue_sum(const Exec& exec, const View1<double>& values);
  virtual void finish_sums() {}
  /// Local: throws code 6 where a queued sum has failed, or when the caller has waited
  /// for longer than the deadline for what comes after it.
  virtual void check(double /*seconds_waited*/) {}
  /// Starts a sum and returns; all ranks start in the same order.
  [[nodiscard]] Ticket start_allreduce_sum(std::span<float> values);
  [[nodiscard]] Ticket start_allreduce_sum(std::span<double> values);

  /// Concatenates the ranks' values in rank order on all ranks. counts: elements of each
  /// rank, size() entries, the same everywhere; all holds their sum.
  template <Plain T>
  void allgatherv(std::span<const T> mine, std::span<T> all,
                  std::span<const std::size_t> counts) {
    allgatherv_bytes(std::as_bytes(mine), std::as_writable_bytes(all),
                     in_bytes(counts, sizeof(T)));
  }
  /// One value of every rank, in rank order.
  template <Plain T>
  std::vector<T> allgather(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size_));
    const std::vector<std::size_t> counts(all.size(), 1);
    allgatherv(std::span<const T>(&mine, 1), std::span<T>(all), counts);
    return all;
  }
  /// Segment q of send goes to rank q; receive holds the segments of all ranks in rank
  /// order. Counts in elements, size() entries each, zero allowed.
  template <Plain T>
  void alltoallv(std::span<const T> send, std::span<const std::size_t> send_counts,
                 std::span<T> receive, std::span<const std::size_t> receive_counts) {
    alltoallv_bytes(std::as_bytes(send), in_bytes(send_counts, sizeof(T)),
                    std::as_writable_bytes(receive), in_bytes(receive_counts, sizeof(T)));
  }
  /// Sends to one rank and receives from one rank (kNobody: not at all). Between the
  /// ranks named; the receiver knows the length.
  template <Plain T>
  void sendrecv(std::span<const T> send, int destination, std::span<T> receive,
                int source) {
    sendrecv_bytes(std::as_bytes(send), destination, std::as_writable_bytes(receive),
                   source);
  }
  static constexpr int kNobody = -1;

  void barrier();
  /// The update under way, for messages about ranks that do not arrive.
  void set_step(std::int64_t step) { step_ = step; }
  /// One communicator per colour, ranks ordered by (key, rank); a negative colour takes
  /// part and gets none (nullptr).
  std::unique_ptr<Communicator> split(int color, int key);
  /// Ends the whole job, all ranks, with this status. Local; for main only.
  [[noreturn]] void abort(int code);

  const Statistics& statistics(Operation operation) const {
    return statistics_[static_cast<std::size_t>(operation)];
  }
  /// Sum over all kinds of calls.
  Statistics statistics() const;
  void reset_statistics() { statistics_ = {}; }

 protected:
  Communicator(std::string name, int rank, int size)
      : name_(std::move(name)), rank_(rank), size_(size) {}
  std::int64_t step() const { return step_; }

 private:
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;
  using Counts = std::span<const std::size_t>;  ///< in bytes, one a rank

  virtual void do_broadcast(Bytes data, int root) = 0;
  virtual void do_allreduce(void* data, std::size_t n, Element, Reduction) = 0;
  virtual void do_allreduce_sum(const Exec& exec, void* data, std::size_t n, Element) = 0;
  virtual void do_queue_sum(const Exec& exec, void* data, std::size_t n,
                            Element element) {
    do_allreduce_sum(exec, data, n, element);
  }
  virtual std::unique_ptr<Ticket::Pending> do_start_allreduce_sum(void* data,
                                                                  std::size_t n,
                                                                  Element) = 0;
  virtual void do_allgatherv(ConstBytes mine, std::byte* all, Counts counts) = 0;
  virtual void do_alltoallv(const std::byte* send, Counts send_counts, std::byte* receive,
                            Counts receive_counts) = 0;
  virtual void do_sendrecv(ConstBytes send, int destination, Bytes receive,
                           int source) = 0;
  virtual void do_barrier() = 0;
  virtual std::unique_ptr<Communicator> do_split(int color, int key) = 0;
  virtual void do_abort(int code) = 0;

  void broadcast_bytes(Bytes data, int root);
  void allgatherv_bytes(ConstBytes mine, Bytes all,
                        const std::vector<std::size_t>& counts);
  void alltoallv_bytes(ConstBytes send, const std::vector<std::size_t>& send_counts,
                       Bytes receive, const std::vector<std::size_t>& receive_counts);
  void sendrecv_bytes(ConstBytes send, int destination, Bytes receive, int source);
  void allreduce(void* data, std::size_t n, Element, Reduction);
  void allreduce(const Exec& exec, void* data, std::size_t n, Element);
  void queue(const Exec& exec, void* data, std::size_t n, Element);
  Ticket start_allreduce(void* data, std::size_t n, Element);
  static std::vector<std::size_t> in_bytes(Counts counts, std::size_t element);

  friend class Ticket;
  class Meter;
  std::string name_;
  int rank_, size_;
  std::int64_t step_ = 0;
  std::array<Statistics, kOperations> statistics_{};
};

/// Whether device memory is handed to the MPI library; automatic: after a test at start.
enum class GpuAware { automatic, on, off };

struct CommunicatorOptions {
  std::string backend = "auto";  ///< auto, or a name of backend_names()
  /// Seconds that a call waits for the other ranks before it fails with code 6.
  double timeout = 120;
  GpuAware gpu_aware = GpuAware::automatic;
  /// Longer messages travel in pieces of this many bytes (message libraries count in
  /// int).
  std::size_t piece_bytes = std::size_t{1} << 30;
  /// Views are copied to pinned host memory for the library; may be left out only where
  /// kernels run on the host.
  bool stage = !kHostExecution;
};

/// What options.backend may be in this build: "auto", "serial", with MPI "mpi", and
/// "nccl", which is known to every build and fails with code 8 where it cannot be had.
std::vector<std::string> backend_names();

/// The communicator of all ranks. auto: serial for one rank, else mpi. reason (if given)
/// receives the choice in words, as "mpi: 2 ranks". Throws code 2 for a name that this
/// build does not have, code 9 where the launch does not fit: serial among several
/// processes, mpi before MPI is started.
std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options = {},
                                                std::string* reason = nullptr);

}  // namespace kan::parallel
