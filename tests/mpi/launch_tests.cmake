# Real launches of launch_probe: exit status and the one line on stderr.
add_executable(launch_probe mpi/launch_probe.cpp)
target_link_libraries(launch_probe PRIVATE kan::kan kan_flags)

# kan_launch_test(NAME RANKS STATUS COUNT PATTERN [ARGUMENTS...] [ENV NAME=VALUE...])
function(kan_launch_test name ranks status count pattern)
  cmake_parse_arguments(arg "" "" "ENV" ${ARGN})
  set(launcher)
  if(ranks GREATER 1)
    if(NOT KAN_ENABLE_MPI)
      return()
    endif()
    set(launcher ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS})
  endif()
  add_test(NAME mpi.launch.${name}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpi/expect_status.sh ${status} ${count} ${pattern}
            ${launcher} $<TARGET_FILE:launch_probe> ${arg_UNPARSED_ARGUMENTS})
  set_tests_properties(mpi.launch.${name} PROPERTIES LABELS mpi TIMEOUT 60
    PROCESSORS ${ranks} ENVIRONMENT "${arg_ENV}")
endfunction()

set(quiet OMP_NUM_THREADS=1)
kan_launch_test(alone 1 0 1 "^serial: 1 rank, nodes=1 local_ranks=1 threads=1 notes=0"
                info ENV ${quiet})
kan_launch_test(four 4 0 1 "^mpi: 4 ranks, nodes=1 local_ranks=4 threads=1 notes=0"
                info ENV ${quiet})
kan_launch_test(warnings 1 0 0 "OMP_PROC_BIND|WARNING|Warning" info ENV ${quiet})
kan_launch_test(one_fails 4 7 1 "launch_probe: error.7. rank 2/4: probe fails"
                fail 2 7 ENV ${quiet})
kan_launch_test(rank0_fails 2 3 1 "launch_probe: error.3. rank 0/2: probe fails"
                fail 0 3 ENV ${quiet})
kan_launch_test(all_fail 4 2 1 "launch_probe: error.2. rank 0/4: all probes fail"
                fail_all 2 ENV ${quiet})
kan_launch_test(alone_fails 1 5 1 "launch_probe: error.5. rank 0/1: probe fails"
                fail 0 5 ENV ${quiet})
kan_launch_test(copies 1 9 1 "error.9. rank 0/1: SLURM_NTASKS = 4, but" info
                ENV ${quiet} SLURM_NTASKS=4)
kan_launch_test(copies_allowed 1 0 1 "^serial: 1 rank" info
                ENV ${quiet} SLURM_NTASKS=4 KAN_ALLOW_SINGLETON=1)
kan_launch_test(inside_slurm 2 0 1 "^mpi: 2 ranks" info ENV ${quiet} SLURM_NTASKS=4)
kan_launch_test(serial_twice 2 9 1 "error.9. rank 0/2: parallel/backend = serial" serial
                ENV ${quiet})
kan_launch_test(map 4 0 1 "^rank 0-3 -> [^ ]+: (1 thread per rank on [0-9]+ CPU|GPU 0)" map
                ENV ${quiet})
if(NOT KAN_ENABLE_NCCL)
  kan_launch_test(no_nccl 2 8 1 "error.8. rank 0/2: parallel/backend = nccl: .*without NCCL"
                  nccl ENV ${quiet})
endif()
kan_launch_test(bad_flag 1 2 1 "error.2. rank 0/1: .*kokkos-nonsense" info
                --kokkos-nonsense=1 ENV ${quiet})
kan_launch_test(many_threads 1 8 1 "error.8. rank 0/1: 1000000 threads are asked for" info 1000000
                ENV ${quiet})
kan_launch_test(signal 4 75 0 "error" signal 3 ENV ${quiet})
kan_launch_test(signal_alone 1 75 0 "error" signal 0 ENV ${quiet})
if("OPENMP" IN_LIST Kokkos_DEVICES)
  kan_launch_test(threads_given 1 0 1 "threads=3 notes=[01] " info 3 ENV ${quiet})
  kan_launch_test(flag_wins 1 0 1 "threads=2 " info 3 --kokkos-num-threads=2 ENV ${quiet})
endif()
