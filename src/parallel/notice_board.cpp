// A message is one byte, a bit for each flag. Sends are synchronous (MPI_Issend): one
// that is complete has been received. So the end is found without counting messages
// (Hoefler, Siebert, Lumsdaine, PPoPP 2010): after a first non-blocking barrier nobody
// sends any more; a rank whose sends are complete enters a second one, and once that is
// complete no message is left. Ranks test both barriers between naps.
#include "parallel/notice_board.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <list>
#include <string>
#include <utility>

#include "parallel/mpi_check.hpp"

namespace kan::parallel {

#ifdef KAN_HAVE_MPI
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(100);
constexpr long kShortestNap = 100'000, kLongestNap = 20'000'000;  // nanoseconds

constexpr bool StopFlags::* kFlags[] = {&StopFlags::signal_stop,
                                        &StopFlags::signal_checkpoint,
                                        &StopFlags::stop_now, &StopFlags::walltime};

unsigned char pack(const StopFlags& flags) {
  unsigned char bits = 0;
  for (int i = 0; i < 4; ++i)
    if (flags.*kFlags[i]) bits |= static_cast<unsigned char>(1 << i);
  return bits;
}

void add(unsigned char bits, StopFlags& flags) {
  for (int i = 0; i < 4; ++i) flags.*kFlags[i] |= (bits >> i & 1) != 0;
}

}  // namespace

struct NoticeBoard::Mail {
  struct Sent {
    unsigned char bits = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Mail() {
    KAN_CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    KAN_CHECK_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    KAN_CHECK_MPI(MPI_Comm_rank(comm, &rank));
  }
  ~Mail() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm);
  }

  void send(unsigned char bits, const std::vector<int>& readers) {
    for (const int reader : readers) {
      if (reader == rank) continue;
      Sent& sent = under_way.emplace_back(Sent{bits});
      KAN_CHECK_MPI(
          MPI_Issend(&sent.bits, 1, MPI_BYTE, reader, tag(), comm, &sent.request));
    }
  }

  int tag() const { return 1 + round % 2; }

  /// Takes in all messages that are there, and forgets the sends that are complete.
  void look(StopFlags& flags) {
    for (;;) {
      int there = 0;
      MPI_Status status;
      KAN_CHECK_MPI(MPI_Iprobe(MPI_ANY_SOURCE, tag(), comm, &there, &status));
      if (there == 0) break;
      unsigned char bits = 0;
      KAN_CHECK_MPI(MPI_Recv(&bits, 1, MPI_BYTE, status.MPI_SOURCE, tag(), comm,
                             MPI_STATUS_IGNORE));
      add(bits, flags);
    }
    for (auto sent = under_way.begin(); sent != under_way.end();) {
      int done = 0;
      KAN_CHECK_MPI(MPI_Test(&sent->request, &done, MPI_STATUS_IGNORE));
      sent = done != 0 ? under_way.erase(sent) : std::next(sent);
    }
  }

  /// Naps until all ranks have come here, with work() between two naps.
  template <class Work>
  void barrier(const Work& work) {
    MPI_Request all = MPI_REQUEST_NULL;
    KAN_CHECK_MPI(MPI_Ibarrier(comm, &all));
    nap_until(
        [&] {
          int done = 0;
          KAN_CHECK_MPI(MPI_Test(&all, &done, MPI_STATUS_IGNORE));
          return done != 0;
        },
        work);
  }

  template <class Ready, class Work>
  static void nap_until(const Ready& ready, const Work& work) {
    timespec nap{0, kShortestNap};
    for (work(); !ready(); work()) {
      nanosleep(&nap, nullptr);  // a signal ends it early
      nap.tv_nsec = std::min(2 * nap.tv_nsec, kLongestNap);
    }
  }

  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  std::list<Sent> under_way;
  int round = 0;  ///< even and odd ones have messages of their own tag
  std::chrono::steady_clock::time_point looked;
};

NoticeBoard::NoticeBoard(std::vector<int> readers) : readers_(std::move(readers)) {
  int started = 0, ranks = 1;
  MPI_Initialized(&started);
  if (started != 0) KAN_CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  if (ranks > 1) mail_ = std::make_unique<Mail>();
}

StopFlags NoticeBoard::read() {
  if (!mail_) return {};
  const auto now = std::chrono::steady_clock::now();
  if (now - mail_->looked < kLookEvery) return read_;
  mail_->looked = now;
  StopFlags flags;
  mail_->look(flags);
  echo_ = echo_ || flags.signal_checkpoint;
  const bool save = std::exchange(flags.signal_checkpoint, false);
  add(pack(flags), read_);
  flags = read_;
  flags.signal_checkpoint = save;
  return flags;
}

void NoticeBoard::share(const StopFlags& flags) {
  if (!mail_) return;
  StopFlags known = read_;
  add(pack(shared_), known);
  StopFlags news = flags;
  for (const auto flag : kFlags) news.*flag = flags.*flag && !(known.*flag);
  if (flags.signal_checkpoint && std::exchange(echo_, false)) {
    news.signal_checkpoint = false;
  }
  const unsigned char bits = pack(news);
  if (bits == 0) return;
  news.signal_checkpoint = false;
  add(pack(news), shared_);
  mail_->send(bits, readers_);
}

void NoticeBoard::wait_for_all(const std::function<StopFlags()>& seen, double seconds) {
  if (!mail_) return;
  const auto start = std::chrono::steady_clock::now();
  const auto look = [&] {
    mail_->look(read_);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (seconds > 0 && waited.count() > seconds)
      throw Error(Code::communication,
                  "the end of the job: a rank that sleeps did not arrive within " +
                      std::to_string(std::llround(seconds)) +
                      " s (parallel/timeout): stopped or lost; what was to be written is "
                      "written");
  };
  mail_->barrier([&] {
    look();
    share(seen());
  });
  mail_->nap_until([&] { return mail_->under_way.empty(); }, look);
  mail_->barrier(look);
  ++mail_->round;  // others may have begun the next one: their messages are not lost here
  read_ = shared_ = {};
  echo_ = false;
}

#else

struct NoticeBoard::Mail {};
NoticeBoard::NoticeBoard(std::vector<int> readers) : readers_(std::move(readers)) {}
StopFlags NoticeBoard::read() { return {}; }
void NoticeBoard::share(const StopFlags&) {}
void NoticeBoard::wait_for_all(const std::function<StopFlags()>&, double) {}

#endif

NoticeBoard::~NoticeBoard() = default;

}  // namespace kan::parallel
