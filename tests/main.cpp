// Main of every test program: MPI and Kokkos guards around a Catch2 session. A failure
// on any rank fails all: the result is all-reduced, and an escaping exception aborts.
#include <Kokkos_Core.hpp>
#include <catch2/catch_session.hpp>
#include <cstdio>
#include <exception>
#ifdef KAN_HAVE_MPI
#include <mpi.h>
#endif

int main(int argc, char** argv) {
#ifdef KAN_HAVE_MPI
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
#endif
  int result = 1;
  try {
    Kokkos::ScopeGuard guard(Kokkos::InitializationSettings().set_disable_warnings(true));
    result = Catch::Session().run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "test program: %s\n", error.what());
#ifdef KAN_HAVE_MPI
    MPI_Abort(MPI_COMM_WORLD, 1);
#endif
  }
#ifdef KAN_HAVE_MPI
  MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
#endif
  return result == 0 ? 0 : 1;
}
