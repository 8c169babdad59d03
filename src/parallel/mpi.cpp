// The backend over MPI. Each communicator owns a duplicate of an MPI communicator that
// returns its errors, so that they arrive as kan::Error. Every call is started without
// blocking and waited for with a deadline (mpi_deadline.hpp). Messages are host memory: a
// View is copied to pinned host memory first (allreduce_staged), unless kernels run on
// the host anyway. MPI counts in int, so anything longer than options.piece_bytes goes in
// pieces (and a gather of that size as one broadcast a rank).
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

#include "kan/error.hpp"
#include "parallel/backends.hpp"
#include "parallel/gpu_aware.hpp"
#include "parallel/mpi_check.hpp"
#include "parallel/mpi_deadline.hpp"

namespace kan::parallel {
namespace {

constexpr int kTagAlltoall = 1, kTagSendrecv = 2;

MPI_Datatype mpi_type(Element element) {
  switch (element) {
    case Element::float32:
      return MPI_FLOAT;
    case Element::float64:
      return MPI_DOUBLE;
    case Element::int64:
      break;
  }
  return MPI_INT64_T;
}

std::size_t size_of(Element element) { return element == Element::float32 ? 4 : 8; }

/// Calls use(offset, count) for the pieces of n things, at most limit in one; at least
/// once, so that an empty message is a message too.
template <class Use>
void in_pieces(std::size_t n, std::size_t limit, const Use& use) {
  std::size_t offset = 0;
  do {
    const std::size_t count = std::min(limit, n - offset);
    use(offset, static_cast<int>(count));
    offset += count;
  } while (offset < n);
}

struct Requests final : Ticket::Pending {
  Requests(MpiDeadline& limit, std::int64_t at) : deadline(limit), step(at) {}
  MpiDeadline& deadline;
  std::int64_t step;
  std::vector<MPI_Request> open;
  void wait() override { deadline.wait(open, {}, step); }
};

class MpiCommunicator final : public Communicator {
 public:
  /// Takes over comm. name: "mpi", or "null": no sums of gradients.
  MpiCommunicator(MPI_Comm comm, const CommunicatorOptions& options,
                  const std::string& name, const std::string& path)
      : Communicator(name, rank_of(comm), size_of_comm(comm)),
        comm_(comm),
        options_(options),
        path_(path),
        deadline_(comm, options.timeout) {
    KAN_CHECK_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    // Freeing is collective: with an exception passing, the others may not come.
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
  }
  bool silent() const override { return name() == "null"; }
  Algorithm preferred() const override {
    return kHostExecution || options_.stage ? Algorithm::tree : Algorithm::library;
  }
  std::string details() const override { return kHostExecution ? "" : path_; }

 private:
  static int rank_of(MPI_Comm comm) {
    int rank = 0;
    KAN_CHECK_MPI(MPI_Comm_rank(comm, &rank));
    return rank;
  }
  static int size_of_comm(MPI_Comm comm) {
    int size = 0;
    KAN_CHECK_MPI(MPI_Comm_size(comm, &size));
    return size;
  }

  void do_broadcast(std::span<std::byte> data, int root) override {
    in_pieces(data.size(), options_.piece_bytes, [&](std::size_t offset, int count) {
      complete([&](MPI_Request* request) {
        KAN_CHECK_MPI(
            MPI_Ibcast(data.data() + offset, count, MPI_BYTE, root, comm_, request));
      });
    });
  }

  void do_allreduce(void* data, std::size_t n, Element element,
                    Reduction reduction) override {
    const MPI_Op op = reduction == Reduction::sum ? MPI_SUM : MPI_MAX;
    in_pieces(n, piece(element), [&](std::size_t offset, int count) {
      complete([&](MPI_Request* request) {
        KAN_CHECK_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, offset, element), count,
                                     mpi_type(element), op, comm_, request));
      });
    });
  }

  void do_allreduce_sum(const Exec& exec, void* data, std::size_t n,
                        Element element) override {
    if (!options_.stage) {
      exec.fence("kan::parallel::mpi: values to be summed are complete");
      if (kHostExecution) return do_allreduce(data, n, element, Reduction::sum);
      // Libraries add in device memory in blocking calls only: see first that all ranks
      // are there.
      do_barrier();
      in_pieces(n, piece(element), [&](std::size_t offset, int count) {
        KAN_CHECK_MPI(MPI_Allreduce(MPI_IN_PLACE, at(data, offset, element), count,
                                    mpi_type(element), MPI_SUM, comm_));
      });
    } else if (element == Element::float32) {
      allreduce_staged(exec, static_cast<float*>(data), n, element);
    } else {
      allreduce_staged(exec, static_cast<double*>(data), n, element);
    }
  }

  /// data: n values in kan::Memory. The one place where device memory meets MPI.
  template <class T>
  void allreduce_staged(const Exec& exec, T* data, std::size_t n, Element element) {
    if (pinned_.size() < n * sizeof(T)) {
      pinned_ = Pinned(
          Kokkos::view_alloc("kan::parallel::mpi::pinned", Kokkos::WithoutInitializing),
          n * sizeof(T));
    }
    const Kokkos::View<T*, Memory, Kokkos::MemoryUnmanaged> values(data, n);
    const Kokkos::View<T*, Kokkos::SharedHostPinnedSpace, Kokkos::MemoryUnmanaged> host(
        reinterpret_cast<T*>(pinned_.data()), n);
    Kokkos::deep_copy(exec, host, values);
    exec.fence("kan::parallel::mpi: values are in pinned memory");
    do_allreduce(host.data(), n, element, Reduction::sum);
    Kokkos::deep_copy(exec, values, host);
    // The pinned buffer is used again by the next call, maybe from another queue.
    exec.fence("kan::parallel::mpi: sums are in place");
  }

  std::unique_ptr<Ticket::Pending> do_start_allreduce_sum(void* data, std::size_t n,
                                                          Element element) override {
    auto requests = std::make_unique<Requests>(deadline_, step());
    in_pieces(n, piece(element), [&](std::size_t offset, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      KAN_CHECK_MPI(MPI_Iallreduce(MPI_IN_PLACE, at(data, offset, element), count,
                                   mpi_type(element), MPI_SUM, comm_, &request));
      requests->open.push_back(request);
    });
    return requests;
  }

  void do_allgatherv(std::span<const std::byte> mine, std::byte* all,
                     std::span<const std::size_t> counts) override {
    std::vector<std::size_t> first(counts.size() + 1, 0);
    std::partial_sum(counts.begin(), counts.end(), first.begin() + 1);
    if (first.back() <= options_.piece_bytes) {
      const std::vector<int> lengths(counts.begin(), counts.end());
      const std::vector<int> offsets(first.begin(), first.end() - 1);
      complete([&](MPI_Request* request) {
        KAN_CHECK_MPI(MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()),
                                      MPI_BYTE, all, lengths.data(), offsets.data(),
                                      MPI_BYTE, comm_, request));
      });
      return;
    }
    std::byte* own = all + first[static_cast<std::size_t>(rank())];
    if (!mine.empty()) std::memmove(own, mine.data(), mine.size());
    for (std::size_t r = 0; r < counts.size(); ++r) {
      do_broadcast({all + first[r], counts[r]}, static_cast<int>(r));
    }
  }

  void do_alltoallv(const std::byte* send, std::span<const std::size_t> send_counts,
                    std::byte* receive,
                    std::span<const std::size_t> receive_counts) override {
    Exchange& exchange = start(kTagAlltoall);
    for (std::size_t r = 0; r < receive_counts.size(); ++r) {
      exchange.receive({receive, receive_counts[r]}, static_cast<int>(r));
      receive += receive_counts[r];
    }
    for (std::size_t r = 0; r < send_counts.size(); ++r) {
      exchange.send({send, send_counts[r]}, static_cast<int>(r));
      send += send_counts[r];
    }
    exchange.finish();
  }

  void do_sendrecv(std::span<const std::byte> send, int destination,
                   std::span<std::byte> receive, int source) override {
    Exchange& exchange = start(kTagSendrecv);
    if (source != kNobody) exchange.receive(receive, source);
    if (destination != kNobody) exchange.send(send, destination);
    exchange.finish();
  }

  void do_barrier() override {
    complete([&](MPI_Request* request) { KAN_CHECK_MPI(MPI_Ibarrier(comm_, request)); });
  }

  std::unique_ptr<Communicator> do_split(int color, int key) override {
    do_barrier();  // splitting blocks: first see that all are there
    MPI_Comm part = MPI_COMM_NULL;
    KAN_CHECK_MPI(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part));
    if (part == MPI_COMM_NULL) return nullptr;
    return std::make_unique<MpiCommunicator>(part, options_, name(), path_);
  }

  void do_abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
  }

  /// Starts one call and waits for it.
  template <class Start>
  void complete(const Start& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    start(&request);
    deadline_.wait({&request, 1}, {}, step());
  }

  /// Point-to-point messages under way, each in pieces that stay in order. Kept between
  /// calls: the exchange of a step allocates nothing.
  class Exchange {
   public:
    explicit Exchange(MpiCommunicator& owner) : owner_(owner) {}
    void restart(int tag) {
      tag_ = tag;
      open_.clear();
      expected_.clear();
    }
    void receive(std::span<std::byte> data, int source) {
      in_pieces(data.size(), owner_.options_.piece_bytes,
                [&](std::size_t offset, int count) {
                  KAN_CHECK_MPI(MPI_Irecv(data.data() + offset, count, MPI_BYTE, source,
                                          tag_, owner_.comm_, add()));
                  expected_.push_back(count);
                });
    }
    void send(std::span<const std::byte> data, int destination) {
      in_pieces(data.size(), owner_.options_.piece_bytes,
                [&](std::size_t offset, int count) {
                  KAN_CHECK_MPI(MPI_Isend(data.data() + offset, count, MPI_BYTE,
                                          destination, tag_, owner_.comm_, add()));
                });
    }
    /// Receives come first in the list, so that their statuses do too.
    void finish() {
      status_.resize(open_.size());
      owner_.deadline_.wait(open_, status_, owner_.step());
      for (std::size_t i = 0; i < expected_.size(); ++i) {
        int count = 0;
        KAN_CHECK_MPI(MPI_Get_count(&status_[i], MPI_BYTE, &count));
        if (count == expected_[i]) continue;
        throw Error(Code::communication,
                    "a message from rank " + std::to_string(status_[i].MPI_SOURCE) +
                        " has " + std::to_string(count) + " bytes where " +
                        std::to_string(expected_[i]) +
                        " were expected: ranks are out of step");
      }
    }

   private:
    MPI_Request* add() { return &open_.emplace_back(MPI_REQUEST_NULL); }
    MpiCommunicator& owner_;
    int tag_ = 0;
    std::vector<MPI_Request> open_;
    std::vector<MPI_Status> status_;
    std::vector<int> expected_;
  };

  Exchange& start(int tag) {
    exchange_.restart(tag);
    return exchange_;
  }

  std::size_t piece(Element element) const {
    return std::max<std::size_t>(1, options_.piece_bytes / size_of(element));
  }
  static void* at(void* data, std::size_t offset, Element element) {
    return static_cast<std::byte*>(data) + offset * size_of(element);
  }

  using Pinned = Kokkos::View<std::byte*, Kokkos::SharedHostPinnedSpace>;
  MPI_Comm comm_;
  CommunicatorOptions options_;
  std::string path_;  ///< of device memory, and why
  MpiDeadline deadline_;
  Exchange exchange_{*this};
  Pinned pinned_;
};

bool mpi_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

}  // namespace

int world_size() {
  int size = 1;
  if (mpi_running()) KAN_CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  return size;
}

namespace {

std::unique_ptr<Communicator> make(const CommunicatorOptions& options,
                                   const std::string& name) {
  KAN_REQUIRE(options.piece_bytes >= 1 && options.piece_bytes <= INT_MAX,
              "piece_bytes must lie between 1 and 2^31 - 1");
  if (!mpi_running()) {
    throw Error(Code::launch, "parallel/backend = " + name +
                                  ": MPI is not started in this process; start it "
                                  "through kan::parallel::Launch or MPI_Init_thread");
  }
  MPI_Comm world = MPI_COMM_NULL;
  KAN_CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &world));
  CommunicatorOptions chosen = options;
  std::string reason;
  // Before Kokkos is started ranks exchange texts only.
  const bool aware =
      Kokkos::is_initialized() && gpu_aware(world, options.gpu_aware, reason);
  if (!kHostExecution) chosen.stage = !aware;
  return std::make_unique<MpiCommunicator>(world, chosen, name, reason);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi(const CommunicatorOptions& options) {
  return make(options, "mpi");
}

std::unique_ptr<Communicator> make_null(const CommunicatorOptions& options) {
  return make(options, "null");
}

}  // namespace kan::parallel
