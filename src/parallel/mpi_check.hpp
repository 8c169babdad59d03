// KAN_CHECK_MPI(call): turns an error code of the MPI library into kan::Error with
// code 6. Included by the sources that call MPI and by nothing else; empty without MPI.
#pragma once

#ifdef KAN_HAVE_MPI
#include <mpi.h>

#include <string>

#include "kan/error.hpp"

namespace kan::parallel {

/// status: what an MPI call returned; call: its text, for the message.
inline void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(status, text, &length);
  const std::string function(call, std::string(call).find('('));
  throw Error(Code::communication,
              function + " failed: " + text +
                  "; a rank or its network was lost, restart from the last checkpoint");
}

}  // namespace kan::parallel

#define KAN_CHECK_MPI(call) ::kan::parallel::check_mpi((call), #call)
#endif
