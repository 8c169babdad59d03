#include <decl/Kokkos_Declare_SERIAL.hpp>
#include <decl/Kokkos_Declare_CUDA.hpp>
