// The public face of communicators (argument checks, counting, timing) and the table of
// backends. The checks are local; a wrong length on one rank is thrown there before the
// rank joins, and the program then ends the job.
#include "parallel/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string_view>
#include <utility>

#include "kan/error.hpp"
#include "parallel/backends.hpp"

namespace kan::parallel {

using Clock = std::chrono::steady_clock;

/// Counts one call on construction, adds the time it took on destruction.
class Communicator::Meter {
 public:
  Meter(Communicator& owner, Operation operation, std::size_t bytes, int calls = 1)
      : totals_(owner.statistics_[static_cast<std::size_t>(operation)]),
        start_(Clock::now()) {
    totals_.calls += calls;
    totals_.bytes += static_cast<std::int64_t>(bytes);
  }
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;
  ~Meter() {
    const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    totals_.seconds += spent;
    totals_.longest = std::max(totals_.longest, spent);
    totals_.shortest = totals_.calls == 1 ? spent : std::min(totals_.shortest, spent);
  }

 private:
  Statistics& totals_;
  Clock::time_point start_;
};

namespace {

std::size_t element_bytes(Element element) {
  return element == Element::float32 ? sizeof(float) : sizeof(double);
}

std::size_t total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

Ticket::Ticket(Communicator* owner, std::unique_ptr<Pending> pending)
    : owner_(owner),
      pending_(std::move(pending)),
      exceptions_(std::uncaught_exceptions()) {}

Ticket::Ticket(Ticket&& other) noexcept
    : owner_(other.owner_),
      pending_(std::move(other.pending_)),
      exceptions_(other.exceptions_) {}

Ticket& Ticket::operator=(Ticket&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(pending_, other.pending_);
  std::swap(exceptions_, other.exceptions_);
  return *this;
}

Ticket::~Ticket() {
  if (!pending_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    // The library may still write into the buffer: its record must outlive us.
    static_cast<void>(pending_.release());
    return;
  }
  try {
    wait();
  } catch (const Error&) {
    // Reported by the next call on the communicator; a destructor cannot.
  }
}

void Ticket::wait() {
  if (!pending_) return;
  const Communicator::Meter meter(*owner_, Operation::allreduce, 0, 0);
  const auto pending = std::move(pending_);
  pending->wait();
}

void Communicator::broadcast_bytes(Bytes data, int root) {
  KAN_REQUIRE(root >= 0 && root < size_, "broadcast: root is not a rank");
  const Meter meter(*this, Operation::broadcast, data.size());
  do_broadcast(data, root);
}

void Communicator::broadcast(std::string& text, int root) {
  std::uint64_t length = text.size();
  broadcast(std::span(&length, 1), root);
  text.resize(length);
  broadcast(std::span(text.data(), text.size()), root);
}

void Communicator::allreduce(void* data, std::size_t n, Element element,
                             Reduction reduction) {
  const Meter meter(*this, Operation::allreduce, n * element_bytes(element));
  do_allreduce(data, n, element, reduction);
}

void Communicator::allreduce(const Exec& exec, void* data, std::size_t n,
                             Element element) {
  const Meter meter(*this, Operation::allreduce, n * element_bytes(element));
  do_allreduce_sum(exec, data, n, element);
}

Ticket Communicator::start_allreduce(void* data, std::size_t n, Element element) {
  const Meter meter(*this, Operation::allreduce, n * element_bytes(element));
  return Ticket(this, do_start_allreduce_sum(data, n, element));
}

void Communicator::allreduce_sum(std::span<float> values) {
  allreduce(values.data(), values.size(), Element::float32, Reduction::sum);
}
void Communicator::allreduce_sum(std::span<double> values) {
  allreduce(values.data(), values.size(), Element::float64, Reduction::sum);
}
void Communicator::allreduce_sum(std::span<std::int64_t> values) {
  allreduce(values.data(), values.size(), Element::int64, Reduction::sum);
}
void Communicator::allreduce_max(std::span<double> values) {
  allreduce(values.data(), values.size(), Element::float64, Reduction::max);
}
void Communicator::allreduce_max(std::span<std::int64_t> values) {
  allreduce(values.data(), values.size(), Element::int64, Reduction::max);
}
void Communicator::allreduce_sum(const Exec& exec, const View1<float>& values) {
  allreduce(exec, values.data(), values.size(), Element::float32);
}
void Communicator::allreduce_sum(const Exec& exec, const View1<double>& values) {
  allreduce(exec, values.data(), values.size(), Element::float64);
}
void Communicator::queue(const Exec& exec, void* data, std::size_t n, Element element) {
  const Meter meter(*this, Operation::allreduce, n * element_bytes(element));
  do_queue_sum(exec, data, n, element);
}
void Communicator::queue_sum(const Exec& exec, const View1<float>& values) {
  queue(exec, values.data(), values.size(), Element::float32);
}
void Communicator::queue_sum(const Exec& exec, const View1<double>& values) {
  queue(exec, values.data(), values.size(), Element::float64);
}
Ticket Communicator::start_allreduce_sum(std::span<float> values) {
  return start_allreduce(values.data(), values.size(), Element::float32);
}
Ticket Communicator::start_allreduce_sum(std::span<double> values) {
  return start_allreduce(values.data(), values.size(), Element::float64);
}

std::vector<std::size_t> Communicator::in_bytes(Counts counts, std::size_t element) {
  std::vector<std::size_t> bytes(counts.begin(), counts.end());
  for (std::size_t& count : bytes) count *= element;
  return bytes;
}

void Communicator::allgatherv_bytes(ConstBytes mine, Bytes all,
                                    const std::vector<std::size_t>& counts) {
  KAN_REQUIRE(counts.size() == static_cast<std::size_t>(size_),
              "allgatherv: one count a rank");
  KAN_REQUIRE(mine.size() == counts[static_cast<std::size_t>(rank_)],
              "allgatherv: own values differ from own count");
  KAN_REQUIRE(all.size() == total(counts), "allgatherv: result is not the sum of counts");
  const Meter meter(*this, Operation::allgatherv, mine.size());
  do_allgatherv(mine, all.data(), counts);
}

void Communicator::alltoallv_bytes(ConstBytes send,
                                   const std::vector<std::size_t>& send_counts,
                                   Bytes receive,
                                   const std::vector<std::size_t>& receive_counts) {
  const auto ranks = static_cast<std::size_t>(size_);
  KAN_REQUIRE(send_counts.size() == ranks && receive_counts.size() == ranks,
              "alltoallv: one count a rank");
  KAN_REQUIRE(
      send.size() == total(send_counts) && receive.size() == total(receive_counts),
      "alltoallv: a buffer is not the sum of its counts");
  const auto self = static_cast<std::size_t>(rank_);
  KAN_REQUIRE(send_counts[self] == receive_counts[self],
              "alltoallv: own segment sent and received differ in length");
  const Meter meter(*this, Operation::alltoallv, send.size());
  do_alltoallv(send.data(), send_counts, receive.data(), receive_counts);
}

void Communicator::sendrecv_bytes(ConstBytes send, int destination, Bytes receive,
                                  int source) {
  KAN_REQUIRE(destination >= kNobody && destination < size_ && source >= kNobody &&
                  source < size_,
              "sendrecv: destination or source is not a rank");
  const Meter meter(*this, Operation::sendrecv, send.size());
  do_sendrecv(send, destination, receive, source);
}

void Communicator::barrier() {
  const Meter meter(*this, Operation::barrier, 0);
  do_barrier();
}

std::unique_ptr<Communicator> Communicator::split(int color, int key) {
  return do_split(color, key);
}

void Communicator::abort(int code) {
  do_abort(code);
  std::_Exit(code);
}

Statistics Communicator::statistics() const {
  Statistics sum;
  for (const Statistics& one : statistics_) {
    sum.calls += one.calls;
    sum.bytes += one.bytes;
    sum.seconds += one.seconds;
  }
  return sum;
}

namespace {

struct Backend {
  std::string_view name;
  std::unique_ptr<Communicator> (*make)(const CommunicatorOptions& options);
};

// A new backend adds its line here.
constexpr Backend kBackends[] = {
    {"serial", make_serial},
#ifdef KAN_HAVE_MPI
    {"mpi", make_mpi},
    {"null", make_null},
#endif
    {"nccl", make_nccl},
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

#ifndef KAN_HAVE_MPI
int world_size() { return 1; }
#endif

std::vector<std::string> backend_names() {
  std::vector<std::string> names{"auto"};
  for (const Backend& backend : kBackends) names.emplace_back(backend.name);
  return names;
}

std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options,
                                                std::string* reason) {
  const int world = world_size();
  std::string wanted = options.backend;
  if (wanted == "auto") wanted = world > 1 ? "mpi" : "serial";
  const auto backend =
      std::find_if(std::begin(kBackends), std::end(kBackends),
                   [&](const Backend& candidate) { return candidate.name == wanted; });
  if (backend == std::end(kBackends)) {
    throw Error(Code::usage, "parallel/backend = " + wanted +
                                 ": this build has no such backend; accepted: " +
                                 joined(backend_names()));
  }
  auto communicator = backend->make(options);
  if (reason != nullptr) {
    *reason = communicator->name() + ": " + std::to_string(communicator->size()) +
              (communicator->size() == 1 ? " rank" : " ranks");
    if (!communicator->details().empty()) *reason += ", " + communicator->details();
  }
  return communicator;
}

}  // namespace kan::parallel
