#include "support/nccl_stand_in.hpp"

#include <array>
#include <cstring>

using kan::parallel::NcclComm;
using kan::parallel::NcclElement;
using kan::parallel::NcclEvent;
using kan::parallel::NcclId;
using Result = kan::parallel::NcclResult;

struct NcclStandIn::Comm {
  MPI_Comm mpi = MPI_COMM_NULL;
  int polls = 0;       // of state() that say in progress
  bool never = false;  // that all do
  bool summed = false;
};

/// The values travel in a copy: what is under way when a rank gives up must not be
/// written into memory that is gone.
struct NcclStandIn::Sum {
  MPI_Comm comm;
  void* data;
  std::vector<std::byte> values;
  MPI_Datatype type;
  int n;
  MPI_Request request = MPI_REQUEST_NULL;
  bool sent = false, done = false;
};

NcclStandIn::NcclStandIn() = default;
NcclStandIn::~NcclStandIn() = default;

namespace {

/// Where the ranks of a communicator find each other: rank 0 of it, and a tag.
struct Meeting {
  int root, tag;
};

struct Event {
  std::size_t sums = 0;  // started before it
};

}  // namespace

Result NcclStandIn::unique_id(NcclId& id) {
  static int next = 100;
  Meeting meeting{0, next++};
  MPI_Comm_rank(MPI_COMM_WORLD, &meeting.root);
  std::memcpy(id.bytes.data(), &meeting, sizeof meeting);
  ++ids;
  return id_result;
}

Result NcclStandIn::start_init(NcclComm** comm, int ranks, const NcclId& id, int rank) {
  ++inits;
  comms_.push_back(std::make_unique<Comm>());
  Comm& made = *comms_.back();
  *comm = reinterpret_cast<NcclComm*>(&made);
  made.never = init_never;
  made.polls = init_polls;
  if (init_never) return Result::in_progress;
  Meeting meeting{};
  std::memcpy(&meeting, id.bytes.data(), sizeof meeting);
  std::vector<int> members(static_cast<std::size_t>(ranks));
  int self = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &self);
  if (rank == 0) {
    members[0] = self;
    for (int i = 1; i < ranks; ++i) {
      std::array<int, 2> one{};
      MPI_Recv(one.data(), 2, MPI_INT, MPI_ANY_SOURCE, meeting.tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      members[static_cast<std::size_t>(one[0])] = one[1];
    }
    for (int i = 1; i < ranks; ++i) {
      MPI_Send(members.data(), ranks, MPI_INT, members[static_cast<std::size_t>(i)],
               meeting.tag, MPI_COMM_WORLD);
    }
  } else {
    const std::array<int, 2> one{rank, self};
    MPI_Send(one.data(), 2, MPI_INT, meeting.root, meeting.tag, MPI_COMM_WORLD);
    MPI_Recv(members.data(), ranks, MPI_INT, meeting.root, meeting.tag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
  }
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, ranks, members.data(), &group);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, meeting.tag, &made.mpi);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return made.polls > 0 ? Result::in_progress : Result::success;
}

Result NcclStandIn::state(NcclComm* comm) {
  ++states;
  Comm& c = *reinterpret_cast<Comm*>(comm);
  if (c.never) return Result::in_progress;
  if (c.polls > 0) {
    --c.polls;
    return Result::in_progress;
  }
  return c.summed ? background : Result::success;
}

void NcclStandIn::send(Sum& sum) {
  MPI_Iallreduce(MPI_IN_PLACE, sum.values.data(), sum.n, sum.type, MPI_SUM, sum.comm,
                 &sum.request);
  sum.sent = true;
}

Result NcclStandIn::start_sum(NcclComm* comm, void* data, std::size_t n,
                              NcclElement element, void*) {
  ++sums;
  Comm& c = *reinterpret_cast<Comm*>(comm);
  const bool single = element == NcclElement::float32;
  const auto* first = static_cast<const std::byte*>(data);
  sums_.push_back(std::make_unique<Sum>(
      Sum{.comm = c.mpi,
          .data = data,
          .values = std::vector<std::byte>(first, first + n * (single ? 4 : 8)),
          .type = single ? MPI_FLOAT : MPI_DOUBLE,
          .n = static_cast<int>(n)}));
  if (!hold_sums) send(*sums_.back());
  c.summed = true;
  c.polls = sum_polls;
  return c.polls > 0 ? Result::in_progress : Result::success;
}

Result NcclStandIn::finalize(NcclComm* comm) {
  ++finalized;
  Comm& c = *reinterpret_cast<Comm*>(comm);
  c.polls = finalize_polls;
  c.never = finalize_never;
  return c.never || c.polls > 0 ? Result::in_progress : Result::success;
}

Result NcclStandIn::destroy(NcclComm* comm) {
  ++destroyed;
  MPI_Comm_free(&reinterpret_cast<Comm*>(comm)->mpi);
  return Result::success;
}

// In a thread of its own: nothing of MPI here.
Result NcclStandIn::abort(NcclComm*) {
  ++aborted;
  if (abort_hangs) let_go_.wait(false);
  ++returned;
  return Result::success;
}

void NcclStandIn::release() {
  let_go_ = true;
  let_go_.notify_all();
  for (auto& sum : sums_) {
    if (!sum->sent) send(*sum);
    MPI_Wait(&sum->request, MPI_STATUS_IGNORE);
  }
  sums_.clear();
  for (auto& comm : comms_) {
    if (comm->mpi != MPI_COMM_NULL) MPI_Comm_free(&comm->mpi);
  }
}

Result NcclStandIn::create_event(NcclEvent** event) {
  ++events;
  *event = reinterpret_cast<NcclEvent*>(new Event);
  return Result::success;
}

Result NcclStandIn::record(NcclEvent* event, void*) {
  reinterpret_cast<Event*>(event)->sums = sums_.size();
  return Result::success;
}

Result NcclStandIn::query(NcclEvent* event) {
  for (std::size_t i = 0; i < reinterpret_cast<Event*>(event)->sums; ++i) {
    Sum& sum = *sums_[i];
    if (sum.done) continue;
    if (!sum.sent) return Result::in_progress;
    int done = 0;
    MPI_Test(&sum.request, &done, MPI_STATUS_IGNORE);
    if (done == 0) return Result::in_progress;
    std::memcpy(sum.data, sum.values.data(), sum.values.size());
    sum.done = true;
  }
  return Result::success;
}

void NcclStandIn::destroy_event(NcclEvent* event) {
  --events;
  delete reinterpret_cast<Event*>(event);
}

std::string NcclStandIn::error_text(Result result, NcclComm*) {
  return "stand-in error " + std::to_string(static_cast<int>(result));
}
