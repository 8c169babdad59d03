# One line a test program; see kan_test in CMakeLists.txt.
kan_test(hdf5 SOURCES unit/hdf5.cpp)
kan_test(random SOURCES unit/random.cpp)
kan_test(scaling SOURCES unit/scaling.cpp)
kan_test(dataset_function SOURCES unit/dataset_function.cpp)
kan_test(dataset_csv SOURCES unit/dataset_csv.cpp)
kan_test(dataset_hdf5 SOURCES unit/dataset_hdf5.cpp)
