# Script mode: writes OUTPUT with the hash of SOURCE, "-dirty" where tracked files differ.
set(hash unknown)
if(GIT)
  execute_process(COMMAND ${GIT} -c safe.directory=* describe --always --dirty --abbrev=12
                          --match "" WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE found
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(hash ${found})
  endif()
endif()
set(text "#pragma once\n#define KAN_GIT_HASH \"${hash}\"\n")
set(old "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
