# One line a test program; see kan_test in CMakeLists.txt.
kan_test(hdf5 SOURCES unit/hdf5.cpp)
kan_test(run_directory SOURCES unit/run_directory.cpp)
kan_test(report SOURCES unit/report.cpp)
kan_test(checkpoint SOURCES unit/checkpoint.cpp)
kan_test(history SOURCES unit/history.cpp)
