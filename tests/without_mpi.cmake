# Configures SOURCE in BINARY as on a machine without an MPI library, and checks which targets would
# be built.
file(REMOVE_RECURSE ${BINARY})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BINARY} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DDLRUN_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE exit_code)
if(NOT exit_code EQUAL 0)
  message(FATAL_ERROR "CMake cannot configure the project:\n${output}")
endif()
file(STRINGS ${BINARY}/build.ninja targets REGEX "^build [^/ ]+: phony")
foreach(wanted dlrun-trainer dlrun-comm-gloo.so trainer_program_test)
  if(NOT targets MATCHES "build ${wanted}: phony")
    message(FATAL_ERROR "${wanted} would not be built")
  endif()
endforeach()
if(targets MATCHES "build dlrun-comm-mpi")
  message(FATAL_ERROR "the backend of MPI would be built: MPI was found after all")
endif()
file(REMOVE_RECURSE ${BINARY})
