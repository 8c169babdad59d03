// The backend of one process: sums are their own result, gathers are copies, and nothing
// is ever waited for.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kan/error.hpp"
#include "parallel/backends.hpp"

namespace kan::parallel {
namespace {

class SerialCommunicator final : public Communicator {
 public:
  SerialCommunicator() : Communicator("serial", 0, 1) {}

 private:
  void do_broadcast(std::span<std::byte>, int) override {}
  void do_allreduce(void*, std::size_t, Element, Reduction) override {}
  void do_allreduce_sum(const Exec& exec, void*, std::size_t, Element) override {
    exec.fence("kan::parallel::serial: sum finished");
  }
  std::unique_ptr<Ticket::Pending> do_start_allreduce_sum(void*, std::size_t,
                                                          Element) override {
    return nullptr;
  }
  void do_allgatherv(std::span<const std::byte> mine, std::byte* all,
                     std::span<const std::size_t>) override {
    copy(mine.data(), all, mine.size());
  }
  void do_alltoallv(const std::byte* send, std::span<const std::size_t> counts,
                    std::byte* receive, std::span<const std::size_t>) override {
    copy(send, receive, counts[0]);
  }
  void do_sendrecv(std::span<const std::byte> send, int destination,
                   std::span<std::byte> receive, int source) override {
    KAN_REQUIRE((destination == kNobody) == (source == kNobody),
                "sendrecv: a single rank sends to itself and receives, or neither");
    if (source == kNobody) return;
    KAN_REQUIRE(send.size() == receive.size(), "sendrecv: lengths differ");
    copy(send.data(), receive.data(), send.size());
  }
  void do_barrier() override {}
  std::unique_ptr<Communicator> do_split(int color, int) override {
    if (color < 0) return nullptr;
    return std::make_unique<SerialCommunicator>();
  }
  void do_abort(int code) override {
    std::fflush(nullptr);
    std::_Exit(code);
  }

  static void copy(const std::byte* from, std::byte* to, std::size_t n) {
    if (n > 0 && from != to) std::memmove(to, from, n);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_serial(const CommunicatorOptions&) {
  const int world = world_size();
  if (world > 1) {
    throw Error(Code::launch, "parallel/backend = serial: " + std::to_string(world) +
                                  " processes were started, and serial is for one; "
                                  "start one process, or set parallel/backend = mpi");
  }
  return std::make_unique<SerialCommunicator>();
}

}  // namespace kan::parallel
