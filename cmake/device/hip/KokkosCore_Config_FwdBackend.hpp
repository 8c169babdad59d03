#include <fwd/Kokkos_Fwd_HIP.hpp>
#include <fwd/Kokkos_Fwd_SERIAL.hpp>
