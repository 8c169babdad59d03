# Installs BUILD into WORK/prefix, builds EXAMPLE by the project SOURCE against it, and runs it.
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}\n${text}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
# By the environment: a list would fall apart on the way through function arguments.
string(REPLACE ";" ":" prefixes "${WORK}/prefix;${PREFIX_PATH}")
set(ENV{CMAKE_PREFIX_PATH} "${prefixes}")
run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release
    -DEXAMPLE=${EXAMPLE})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
run(${WORK}/prefix/bin/kan_driver --version)
