// Where kernels go. A Queue is an execution-space instance, and maybe the end of a
// recording: what launches kernels takes a Queue first and does not know whether they run
// now or are written down as nodes of a graph, one after the other, to run later.
//
//   const Recording step(exec, [&](const Queue& queue) { launch(queue, ...); });
//   for (...) step.launch(exec);
//
// What a recorded kernel was given stays as it was: it must be plain values and pointers
// that are still good at the launch. A graph runs on every backend; CUDA, HIP and SYCL
// launch it as one.
#pragma once

#include <Kokkos_Graph.hpp>
#include <optional>
#include <string>
#include <utility>

#include "kan/types.hpp"

namespace kan {

class Queue {
 public:
  using Node = Kokkos::Experimental::GraphNodeRef<Exec>;

  /// Kernels run as they come.
  Queue(const Exec& exec) : exec_(exec) {}
  /// Kernels are recorded behind `last`, which becomes the newest of them.
  Queue(const Exec& exec, Node& last) : exec_(exec), last_(&last) {}

  const Exec& exec() const { return exec_; }

  template <class Policy, class Functor>
  void parallel_for(const char* name, const Policy& policy,
                    const Functor& functor) const {
    if (last_ != nullptr)
      *last_ = last_->then_parallel_for(std::string(name), policy, functor);
    else
      Kokkos::parallel_for(label(name), policy, functor);
  }
  /// functor(0) to functor(count - 1). few: up to this many are not worth waking the
  /// host's threads for, which takes about 1 us, and run in the calling thread there.
  template <class Functor>
  void for_each(const char* name, std::int64_t count, const Functor& functor,
                std::int64_t few = 0) const {
    if constexpr (kHostExecution) {
      if (count <= few && last_ == nullptr) {
        exec_.fence(label(name));
        for (std::int64_t k = 0; k < count; ++k) functor(k);
        return;
      }
    }
    parallel_for(name, Kokkos::RangePolicy<Exec>(exec_, 0, count), functor);
  }

 private:
  Exec exec_;
  Node* last_ = nullptr;
};

/// Kernels that were recorded once, to be launched together.
class Recording {
 public:
  /// record(queue) launches the kernels. exec: the default instance, which is what nodes
  /// of a graph run on.
  template <class Record>
  Recording(const Exec& exec, const Record& record)
      : graph_(Kokkos::Experimental::create_graph<Exec>([&](const auto& root) {
          last_ = root;
          record(Queue(exec, *last_));
        })) {
    graph_.instantiate();
  }

  void launch(const Exec& exec) const { graph_.submit(exec); }

 private:
  // The last node keeps those before it, and what memory they hold, alive. Before the
  // graph, which its constructor sets it for.
  std::optional<Queue::Node> last_;
  Kokkos::Experimental::Graph<Exec> graph_;
};

}  // namespace kan
