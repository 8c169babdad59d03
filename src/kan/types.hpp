// Execution space, memory and View aliases: the one place that says where arrays live
// and how they are laid out. All arrays are row-major (LayoutRight), last index fastest.
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

// In front of a loop whose iterations do not depend on each other: the compiler need not
// prove it to vectorise.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define KAN_INDEPENDENT
#elif defined(__clang__)
#define KAN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KAN_INDEPENDENT _Pragma("GCC ivdep")
#else
#define KAN_INDEPENDENT
#endif

namespace kan {

using Exec = Kokkos::DefaultExecutionSpace;
using Memory = Exec::memory_space;
using HostExec = Kokkos::DefaultHostExecutionSpace;

template <class T>
using View1 = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
template <class T>
using View2 = Kokkos::View<T**, Kokkos::LayoutRight, Memory>;
template <class T>
using HostView1 = Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::HostSpace>;
template <class T>
using HostView2 = Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::HostSpace>;

/// True where the default execution space runs on the host (OpenMP, Serial, Threads).
inline constexpr bool kHostExecution =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible;

/// Where messages between ranks leave from and arrive: pinned where kernels run on a
/// device, else the memory of the kernels.
using MessageMemory =
    std::conditional_t<kHostExecution, Memory, Kokkos::SharedHostPinnedSpace>;
template <class T>
using MessageView1 = Kokkos::View<T*, Kokkos::LayoutRight, MessageMemory>;

/// A label to hand to Kokkos, which makes a string of it in every call: that takes memory
/// for more than 15 characters, and nobody reads it but a tool.
inline const char* label(const char* text) {
  return Kokkos::Tools::profileLibraryLoaded() ? text : "";
}

}  // namespace kan
