# One line a test program; see kan_test in CMakeLists.txt.
kan_test(hdf5 SOURCES unit/hdf5.cpp)
kan_test(random SOURCES unit/random.cpp)
kan_test(scaling SOURCES unit/scaling.cpp)
kan_test(dataset_function SOURCES unit/dataset_function.cpp)
kan_test(dataset_csv SOURCES unit/dataset_csv.cpp)
kan_test(dataset_hdf5 SOURCES unit/dataset_hdf5.cpp)
kan_test(bspline SOURCES unit/bspline.cpp)
kan_test(math SOURCES unit/math.cpp)
target_compile_definitions(test_math PRIVATE KAN_ARCH="${KAN_ARCH}")
kan_test(engine_reference SOURCES unit/engine_reference.cpp)
kan_test(engine_gradient SOURCES unit/engine_gradient.cpp)
kan_test(engine_team SOURCES unit/engine_team.cpp)
kan_test(engine_layer SOURCES unit/engine_layer.cpp)
kan_test(optimizer SOURCES unit/optimizer.cpp)
kan_test(partition SOURCES unit/partition.cpp)
kan_test(groups_plan SOURCES unit/groups.cpp)
kan_test(control_lane SOURCES unit/control_lane.cpp)
kan_test(signals SOURCES unit/signals.cpp)
kan_test(launch SOURCES unit/launch.cpp)
kan_test(memory SOURCES unit/memory.cpp)
kan_test(device_map SOURCES unit/device_map.cpp)
if(KAN_ENABLE_MPI)
  kan_test(nccl SOURCES mpi/nccl.cpp support/nccl_stand_in.cpp RANKS 1 2 3 4 LABEL mpi)
  kan_test(gpu_aware SOURCES mpi/gpu_aware.cpp RANKS 1 3 LABEL mpi)
endif()
kan_test(timer SOURCES mpi/timer.cpp RANKS 1 3 LABEL mpi)
kan_test(communicator SOURCES mpi/communicator.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(exchange SOURCES mpi/exchange.cpp RANKS 1 2 3 4 5 8 LABEL mpi)
kan_test(reducer SOURCES mpi/reducer.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(tree SOURCES mpi/tree.cpp RANKS 1 2 3 4 5 8 LABEL mpi)
include(mpi/launch_tests.cmake)
kan_test(trainer SOURCES unit/trainer.cpp)
kan_test(training SOURCES mpi/training.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(graph SOURCES mpi/graph.cpp RANKS 1 2 4 LABEL mpi)
kan_test(allocations SOURCES mpi/allocations.cpp RANKS 1 2 3 LABEL mpi)
kan_test(groups SOURCES mpi/groups.cpp RANKS 2 3 4 8 LABEL mpi)
kan_test(agreement SOURCES mpi/agreement.cpp RANKS 1 2 4 LABEL mpi)
kan_test(stream_data SOURCES mpi/stream_data.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(stream_feed SOURCES mpi/stream_feed.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(deadline SOURCES mpi/deadline.cpp RANKS 1 2 3 4 LABEL mpi)
kan_test(local_sgd SOURCES mpi/local_sgd.cpp RANKS 1 2 3 4 8 LABEL mpi)
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

# Every source that launches kernels is compiled for GPUs, and bad figures fail.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME unit.device_check COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/device_check.py ${PROJECT_SOURCE_DIR}/scripts/device_check)
  add_test(NAME unit.gpu_model COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/gpu_model.py ${CMAKE_CURRENT_SOURCE_DIR}/bench/gpu_model.py
    ${PROJECT_SOURCE_DIR}/docs/gpu-model.md)
  set_tests_properties(unit.device_check unit.gpu_model PROPERTIES LABELS unit TIMEOUT 60)
endif()

# The Python tools, on files that the library wrote.
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
kan_test(deck_grammar SOURCES unit/deck_grammar.cpp)
kan_test(deck_rules SOURCES unit/deck_rules.cpp)
kan_test(deck_options SOURCES unit/deck_options.cpp)
kan_test(deck_random SOURCES unit/deck_random.cpp)
kan_test(command_line SOURCES unit/command_line.cpp)

# The decks of inputs/, through kan_driver.
if(Python3_FOUND)
  set(kan_decks ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tests/regression/decks.py --driver
      $<TARGET_FILE:kan_driver>)
  add_test(NAME regression.decks COMMAND ${kan_decks} list)
  foreach(deck sum_of_squares feynman_I_6_2 feynman_I_9_18 feynman_I_12_11 feynman_I_26_2
          feynman_I_37_4 diabetes breast_cancer digits)
    add_test(NAME regression.${deck} COMMAND ${kan_decks} bars ${deck})
    set_tests_properties(regression.${deck} PROPERTIES LABELS regression TIMEOUT 300)
  endforeach()
  set_tests_properties(regression.decks PROPERTIES LABELS regression TIMEOUT 600)
  if(NOT kan_python_lacks)
    add_test(NAME regression.reference COMMAND ${kan_decks} reference)
    add_test(NAME regression.threads COMMAND ${kan_decks} threads)
    if(KAN_ENABLE_MPI)
      foreach(case ranks table)
        add_test(NAME regression.restart_${case} COMMAND ${Python3_EXECUTABLE}
          ${CMAKE_CURRENT_SOURCE_DIR}/regression/restart_elsewhere.py ${case}
          $<TARGET_FILE:kan_driver> ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG}
          ${MPIEXEC_PREFLAGS})
        set_tests_properties(regression.restart_${case} PROPERTIES LABELS regression
          TIMEOUT 600 PROCESSORS 2)
      endforeach()
    endif()
    set_tests_properties(regression.reference regression.threads PROPERTIES
                         LABELS regression TIMEOUT 900)
  endif()
endif()

# The examples, and what can be checked of the manual.
add_executable(kan_example_library ${PROJECT_SOURCE_DIR}/examples/library.cpp)
target_link_libraries(kan_example_library PRIVATE kan::kan kan_flags)
add_test(NAME unit.example_library COMMAND kan_example_library)
set_tests_properties(unit.example_library PROPERTIES LABELS unit TIMEOUT 60
  ENVIRONMENT "OMP_NUM_THREADS=2;OMP_PROC_BIND=false")
if(Python3_FOUND)
  add_test(NAME unit.manual COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/unit/manual.py $<TARGET_FILE:kan_driver> ${PROJECT_SOURCE_DIR})
  set_tests_properties(unit.manual PROPERTIES LABELS unit TIMEOUT 60)
  if(NOT kan_python_lacks)
    add_test(NAME regression.example_evaluate COMMAND ${Python3_EXECUTABLE} -B
      ${CMAKE_CURRENT_SOURCE_DIR}/regression/example_evaluate.py $<TARGET_FILE:kan_driver>
      ${PROJECT_SOURCE_DIR}/examples)
    set_tests_properties(regression.example_evaluate PROPERTIES LABELS regression TIMEOUT 120)
  endif()
endif()

# kan_driver killed and stopped anywhere, then started again.
if(Python3_FOUND AND NOT kan_python_lacks)
  foreach(test kills.calls kills.flush kills.writes kills.twice kills.stopped kills.random
          kills.ranks stops.signals stops.limits stops.ranks ranks.stopped ranks.dead
          groups.work groups.asleep groups.sleeper groups.alike)
    if(test MATCHES "ranks|groups" AND NOT KAN_ENABLE_MPI)
      continue()
    endif()
    string(REGEX REPLACE "\\..*" "" program ${test})
    string(REGEX REPLACE ".*\\." "" case ${test})
    add_test(NAME faults.driver_${test} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/faults/driver_${program}.py ${case}
      $<TARGET_FILE:kan_driver> $<TARGET_FILE:kan_kill_shim>
      ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${MPIEXEC_PREFLAGS})
    set_tests_properties(faults.driver_${test} PROPERTIES LABELS faults TIMEOUT 900
      PROCESSORS 2 ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()
if(Python3_FOUND AND NOT kan_python_lacks)
  add_test(NAME regression.csv_workflow COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/regression/csv_workflow.py $<TARGET_FILE:kan_driver>)
  set_tests_properties(regression.csv_workflow PROPERTIES LABELS regression TIMEOUT 300)
endif()

# Training steps against the limits of the machine; by hand, for figures.
add_executable(kan_bench bench/kan_bench.cpp bench/bench_cases.cpp bench/bench_machine.cpp
  bench/bench_training.cpp)
target_link_libraries(kan_bench PRIVATE kan::kan kan_flags nlohmann_json::nlohmann_json)
target_include_directories(kan_bench PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
add_test(NAME perf.bench COMMAND kan_bench --match 2-64-1_G5_k3_b256,reproducible
  --rounds 2 --seconds 0.001)
set_tests_properties(perf.bench PROPERTIES LABELS perf TIMEOUT 120
  ENVIRONMENT "OMP_NUM_THREADS=1;OMP_PROC_BIND=false")

# Instructions of training steps, counted by valgrind: compiled for a CPU that it knows,
# without MPI and files, which only take time to start, and with one Kokkos of the two.
if(Python3_FOUND AND Kokkos_ENABLE_OPENMP AND
   NOT (Kokkos_ENABLE_CUDA OR Kokkos_ENABLE_HIP OR Kokkos_ENABLE_SYCL))
  find_program(KAN_VALGRIND valgrind)
  set(kan_counted)
  if(KAN_VALGRIND AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    get_target_property(kan_bench_sources kan_bench SOURCES)
    get_target_property(kan_counted_sources kan SOURCES)
    list(FILTER kan_counted_sources EXCLUDE REGEX
      "/src/(io|io/dataset|run)/[^/]+$|/src/parallel/(gpu_aware|mpi)[^/]*$")
    add_library(kan_counted_flags INTERFACE)
    target_compile_options(kan_counted_flags INTERFACE -march=x86-64-v3)
    add_executable(kan_bench_counted ${kan_bench_sources} ${kan_counted_sources})
    target_include_directories(kan_bench_counted PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
      ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(kan_bench_counted PRIVATE Kokkos::kokkos kan_flags
      kan_counted_flags kan_external nlohmann_json::nlohmann_json Threads::Threads
      ${KAN_PLAIN_LIBRARIES} ${CMAKE_DL_LIBS})
    set(kan_counted $<TARGET_FILE:kan_bench_counted>)
  endif()
  string(JOIN " " kan_build ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}
    ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS})
  set(kan_count_instructions ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/bench/instructions.py --build "${kan_build}")
  add_test(NAME perf.instructions COMMAND ${kan_count_instructions} ${kan_counted})
  set_tests_properties(perf.instructions PROPERTIES LABELS perf TIMEOUT 600
    SKIP_RETURN_CODE 77)
  add_custom_target(instructions_update
    COMMAND ${kan_count_instructions} --update ${kan_counted} USES_TERMINAL VERBATIM)
endif()

# Costs of sums over ranks; for figures run it by hand, without `quick`.
if(KAN_ENABLE_MPI)
  add_executable(kan_bench_reduce bench/kan_bench_reduce.cpp)
  target_link_libraries(kan_bench_reduce PRIVATE kan::kan kan_flags)
  target_include_directories(kan_bench_reduce PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_test(NAME perf.bench_reduce COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2
    ${MPIEXEC_PREFLAGS} $<TARGET_FILE:kan_bench_reduce> quick)
  set_tests_properties(perf.bench_reduce PROPERTIES LABELS perf TIMEOUT 120 PROCESSORS 2
    ENVIRONMENT "OMP_NUM_THREADS=1;OMP_PROC_BIND=false")
endif()
if(Python3_FOUND AND NOT kan_python_lacks)
  if(KAN_ENABLE_MPI)
    set(kan_launcher ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${MPIEXEC_PREFLAGS})
  endif()
  add_test(NAME regression.streamed COMMAND ${Python3_EXECUTABLE} -B
    ${CMAKE_CURRENT_SOURCE_DIR}/regression/streamed.py $<TARGET_FILE:kan_driver>
    ${kan_launcher})
  set_tests_properties(regression.streamed PROPERTIES LABELS regression TIMEOUT 600
    PROCESSORS 2)
endif()
