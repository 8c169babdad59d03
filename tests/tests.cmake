# One line a test program; see kan_test in CMakeLists.txt.
