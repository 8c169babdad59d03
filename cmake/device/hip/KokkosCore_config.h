// Stands in front of the installed Kokkos's own header of this name, for compiling kernels
// only: the installed settings with HIP as the default execution space and Serial on the
// host. Used by scripts/device_check, which names the architecture.
#include_next <KokkosCore_config.h>

#undef KOKKOS_ENABLE_OPENMP
#undef KOKKOS_ENABLE_THREADS
#undef KOKKOS_ENABLE_SERIAL
#define KOKKOS_ENABLE_SERIAL
#define KOKKOS_ENABLE_HIP
#undef KOKKOS_ENABLE_CXX17
#undef KOKKOS_ENABLE_CXX20
#define KOKKOS_ENABLE_CXX20
