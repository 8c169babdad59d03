#include <decl/Kokkos_Declare_HIP.hpp>
#include <decl/Kokkos_Declare_SERIAL.hpp>
