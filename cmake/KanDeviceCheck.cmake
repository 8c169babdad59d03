# Target device_check: compiles every kernel for NVIDIA and AMD GPUs, without one, and fails
# on spills, large stack frames and kernels that the compiler emptied (scripts/device_check).
set(KAN_DEVICE_CHECK_ARGS "" CACHE STRING
    "Arguments of scripts/device_check, e.g. --orders;3;--arch;sm_90,gfx90a")
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_custom_target(device_check
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/device_check
            --build ${PROJECT_BINARY_DIR}/device
            --report ${PROJECT_BINARY_DIR}/device/kernels.md ${KAN_DEVICE_CHECK_ARGS}
    USES_TERMINAL VERBATIM)
endif()
