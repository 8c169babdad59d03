// Sums of Views over NCCL, all else through the communicator inside. The start: devices
// are gathered and compared, the library's age is looked at, rank 0's id is broadcast
// together with what became of it, so that all ranks fail alike, and after a barrier all
// connect.
#include "parallel/nccl.hpp"

#include <string>
#include <utility>

#include "kan/error.hpp"
#include "parallel/backends.hpp"
#include "parallel/nccl_link.hpp"

namespace kan::parallel {
namespace {

void* stream_of([[maybe_unused]] const Exec& exec) {
#ifdef KOKKOS_ENABLE_CUDA
  return exec.cuda_stream();
#else
  exec.fence("kan::parallel::nccl: values to be summed are complete");
  return nullptr;  // no device: the table is a stand-in over host memory
#endif
}

std::string who_is(const RankPlace& place, int rank, int size) {
  return "rank " + std::to_string(rank) + " of " + std::to_string(size) + " (" +
         place.host.data() + ", " + device_text(place) + ")";
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclApi& api, std::unique_ptr<Communicator> inner,
                   const RankPlace& place, const CommunicatorOptions& options)
      : Communicator("nccl", inner->rank(), inner->size()),
        api_(api),
        inner_(std::move(inner)),
        place_(place),
        options_(options),
        link_(api, options.timeout, who_is(place, rank(), size())) {
    require_own_devices(inner_->allgather(place_));
    require_nccl_version(api_);
    struct {
      NcclId id;
      NcclResult result = NcclResult::success;
    } start;
    if (rank() == 0) start.result = api_.unique_id(start.id);
    inner_->broadcast(std::span(&start, 1));
    if (start.result != NcclResult::success) {
      throw Error(
          Code::communication,
          "NCCL cannot start on rank 0: " + api_.error_text(start.result, nullptr) +
              "; NCCL_DEBUG=INFO shows why, NCCL_SOCKET_IFNAME names the network "
              "interface it shall use");
    }
    inner_->barrier();  // from here on, all ranks are on their way to connect
    link_.connect(start.id, rank(), size());
  }

  Algorithm preferred() const override { return Algorithm::library; }
  void finish_sums() override {
    if (queued_) link_.wait(step());
    queued_ = false;
  }
  void check(double seconds_waited) override { link_.check(seconds_waited, step()); }

 private:
  /// What ranks say in host memory.
  Communicator& inner() {
    inner_->set_step(step());
    return *inner_;
  }

  void do_allreduce_sum(const Exec& exec, void* data, std::size_t n,
                        Element element) override {
    do_queue_sum(exec, data, n, element);
    finish_sums();
  }
  void do_queue_sum(const Exec& exec, void* data, std::size_t n,
                    Element element) override {
    if (n == 0) return;  // on all ranks
    queued_ = true;
    link_.start_sum(
        data, n,
        element == Element::float32 ? NcclElement::float32 : NcclElement::float64,
        stream_of(exec), step());
  }

  void do_broadcast(std::span<std::byte> data, int root) override {
    inner().broadcast(data, root);
  }
  void do_allreduce(void* data, std::size_t n, Element element,
                    Reduction reduction) override {
    const bool sum = reduction == Reduction::sum;
    switch (element) {
      case Element::float32: {
        KAN_REQUIRE(sum, "there is no maximum of float values");
        return inner().allreduce_sum(std::span(static_cast<float*>(data), n));
      }
      case Element::float64: {
        const std::span values(static_cast<double*>(data), n);
        return sum ? inner().allreduce_sum(values) : inner().allreduce_max(values);
      }
      case Element::int64: {
        const std::span values(static_cast<std::int64_t*>(data), n);
        return sum ? inner().allreduce_sum(values) : inner().allreduce_max(values);
      }
    }
  }
  std::unique_ptr<Ticket::Pending> do_start_allreduce_sum(void* data, std::size_t n,
                                                          Element element) override {
    struct Started final : Ticket::Pending {
      Ticket ticket;
      void wait() override { ticket.wait(); }
    };
    auto started = std::make_unique<Started>();
    started->ticket =
        element == Element::float32
            ? inner().start_allreduce_sum(std::span(static_cast<float*>(data), n))
            : inner().start_allreduce_sum(std::span(static_cast<double*>(data), n));
    return started;
  }
  void do_allgatherv(std::span<const std::byte> mine, std::byte* all,
                     std::span<const std::size_t> counts) override {
    inner().allgatherv(mine, std::span(all, total(counts)), counts);
  }
  void do_alltoallv(const std::byte* send, std::span<const std::size_t> send_counts,
                    std::byte* receive,
                    std::span<const std::size_t> receive_counts) override {
    inner().alltoallv(std::span(send, total(send_counts)), send_counts,
                      std::span(receive, total(receive_counts)), receive_counts);
  }
  void do_sendrecv(std::span<const std::byte> send, int destination,
                   std::span<std::byte> receive, int source) override {
    inner().sendrecv(send, destination, receive, source);
  }
  void do_barrier() override { inner().barrier(); }

  std::unique_ptr<Communicator> do_split(int color, int key) override {
    std::unique_ptr<Communicator> part = inner().split(color, key);
    if (part == nullptr) return nullptr;
    return std::make_unique<NcclCommunicator>(api_, std::move(part), place_, options_);
  }

  void do_abort(int code) override {
    link_.abort();
    inner_->abort(code);
  }

  static std::size_t total(std::span<const std::size_t> counts) {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum += count;
    return sum;
  }

  NcclApi& api_;
  std::unique_ptr<Communicator> inner_;
  RankPlace place_;
  CommunicatorOptions options_;
  NcclLink link_;
  bool queued_ = false;
};

}  // namespace

#ifndef KAN_HAVE_NCCL
NcclApi& nccl_api() {
  throw Error(
      Code::device,
      "parallel/backend = nccl: this program was built without NCCL; build it with "
      "a Kokkos that has CUDA and -DKAN_ENABLE_NCCL=ON, or choose parallel/backend "
      "= auto");
}
#endif

std::unique_ptr<Communicator> make_nccl(NcclApi& api, std::unique_ptr<Communicator> inner,
                                        const RankPlace& place,
                                        const CommunicatorOptions& options) {
  return std::make_unique<NcclCommunicator>(api, std::move(inner), place, options);
}

std::unique_ptr<Communicator> make_nccl(const CommunicatorOptions& options) {
  NcclApi& api = nccl_api();
  const RankPlace place = this_device();
  if (place.device < 0) {
    throw Error(Code::device,
                "parallel/backend = nccl: this process has no GPU; ask the batch system "
                "for one GPU per rank, or choose parallel/backend = auto");
  }
#ifdef KAN_HAVE_MPI
  if (world_size() > 1) return make_nccl(api, make_mpi(options), place, options);
#endif
  return make_nccl(api, make_serial(options), place, options);
}

}  // namespace kan::parallel
