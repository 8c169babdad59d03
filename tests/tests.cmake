# One line a test program; see kan_test in CMakeLists.txt.
kan_test(partition SOURCES unit/partition.cpp)
kan_test(control_lane SOURCES unit/control_lane.cpp)
kan_test(signals SOURCES unit/signals.cpp)
kan_test(launch SOURCES unit/launch.cpp)
kan_test(communicator SOURCES mpi/communicator.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(reducer SOURCES mpi/reducer.cpp RANKS 1 2 3 4 8 LABEL mpi)
kan_test(tree SOURCES mpi/tree.cpp RANKS 1 2 3 4 5 8 LABEL mpi)
include(mpi/launch_tests.cmake)
