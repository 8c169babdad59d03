# One line a test program; see kan_test in CMakeLists.txt.
kan_test(hdf5 SOURCES unit/hdf5.cpp)
kan_test(random SOURCES unit/random.cpp)
