# The git hash, refreshed on each build: a target that always runs rewrites the header
# only when the hash changed, so that an unchanged tree rebuilds nothing.
find_package(Git QUIET)
set(KAN_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)
set(KAN_HASH_COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
    -DOUTPUT=${KAN_GENERATED_DIR}/kan/git_hash.hpp -DGIT=${GIT_EXECUTABLE}
    -P ${PROJECT_SOURCE_DIR}/cmake/GitHash.cmake)
add_custom_target(kan_git_hash BYPRODUCTS ${KAN_GENERATED_DIR}/kan/git_hash.hpp
                  COMMAND ${KAN_HASH_COMMAND} VERBATIM)
