// In front of the header of this name of the installed Kokkos (see KokkosCore_config.h).
// The order is fixed: device backends use the host space.
// clang-format off
#include <decl/Kokkos_Declare_SERIAL.hpp>
#include <decl/Kokkos_Declare_HIP.hpp>
