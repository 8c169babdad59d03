# One line a test program; see kan_test in CMakeLists.txt.
kan_test(hdf5 SOURCES unit/hdf5.cpp)
kan_test(run_directory SOURCES unit/run_directory.cpp)
kan_test(report SOURCES unit/report.cpp)
kan_test(checkpoint SOURCES unit/checkpoint.cpp)
kan_test(history SOURCES unit/history.cpp)

# A preloaded library that kills a process at its nth system call on a directory.
add_library(kan_kill_shim MODULE faults/kill_shim.c)
set_target_properties(kan_kill_shim PROPERTIES C_STANDARD 11 PREFIX "")
target_link_libraries(kan_kill_shim PRIVATE ${CMAKE_DL_LIBS})
add_executable(kan_file_writer faults/file_writer.cpp)
target_link_libraries(kan_file_writer PRIVATE kan::kan kan_flags)
target_include_directories(kan_file_writer PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
kan_test(kill_files SOURCES faults/kill_files.cpp LABEL faults TIMEOUT 900)
target_compile_definitions(test_kill_files PRIVATE
  KAN_KILL_SHIM="$<TARGET_FILE:kan_kill_shim>" KAN_FILE_WRITER="$<TARGET_FILE:kan_file_writer>")
add_dependencies(test_kill_files kan_kill_shim kan_file_writer)

# The Python tools, on files that the library wrote.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import h5py, matplotlib"
                  RESULT_VARIABLE kan_python_lacks ERROR_QUIET)
endif()
if(Python3_FOUND AND NOT kan_python_lacks)
  add_executable(kan_history_sample unit/history_sample.cpp)
  target_link_libraries(kan_history_sample PRIVATE kan::kan kan_flags fmt::fmt)
  target_include_directories(kan_history_sample PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_test(NAME unit.tools_history COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/tools_history.py $<TARGET_FILE:kan_history_sample>
    ${PROJECT_SOURCE_DIR}/tools)
  set_tests_properties(unit.tools_history PROPERTIES LABELS unit TIMEOUT 300
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;MPLCONFIGDIR=${CMAKE_CURRENT_BINARY_DIR}/mpl")
else()
  message(STATUS "Python tools are not tested: no Python 3 with h5py and matplotlib")
endif()
