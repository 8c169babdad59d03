// In front of the header of this name of the installed Kokkos (see KokkosCore_config.h).
// The order is fixed: device backends use the host space.
// clang-format off
#include <fwd/Kokkos_Fwd_SERIAL.hpp>
#include <fwd/Kokkos_Fwd_CUDA.hpp>
