#include <decl/Kokkos_Declare_CUDA.hpp>
#include <decl/Kokkos_Declare_SERIAL.hpp>
