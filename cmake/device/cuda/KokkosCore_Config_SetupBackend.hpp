// In front of the header of this name of the installed Kokkos (see KokkosCore_config.h).
#include <setup/Kokkos_Setup_Cuda.hpp>
