# Installs dlrun from the build folder BINARY, moves the installation, and builds
# configs/examples/data_parallel.cc of the source folder SOURCE against it. Trains with one process
# and, if MPIEXEC is set, with two processes under MPI.
set(folder ${BINARY}/installed-library)
file(REMOVE_RECURSE ${folder})

# Runs a command, and sets `output` to what it prints. If the command fails, ends this script with
# `what`, the exit code and the output.
function(run what)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed: ${code}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("installing" ${CMAKE_COMMAND} --install ${BINARY} --prefix ${folder}/first)
file(RENAME ${folder}/first ${folder}/moved)  # No file may contain the old path.
file(COPY ${SOURCE}/configs/examples/data_parallel.cc DESTINATION ${folder}/project)
file(WRITE ${folder}/project/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(data_parallel CXX)
find_package(dlrun REQUIRED)
add_executable(data-parallel data_parallel.cc)
target_link_libraries(data-parallel PRIVATE dlrun::runtime)
")
run("configuring" ${CMAKE_COMMAND} -S ${folder}/project -B ${folder}/project/build
  -G Ninja -DCMAKE_PREFIX_PATH=${folder}/moved)
run("building" ${CMAKE_COMMAND} --build ${folder}/project/build)
run("one rank" ${folder}/project/build/data-parallel ${folder}/alone.safetensors)
if(NOT output MATCHES "step 30, 1 ranks: loss [01]\\.")
  message(FATAL_ERROR "unexpected output of one rank: ${output}")
endif()
if(MPIEXEC)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT} 1)
  set(ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} 1)
  set(ENV{OMPI_MCA_mpi_yield_when_idle} 1)
  set(ENV{OMPI_MCA_pml} ob1)
  set(ENV{OMPI_MCA_btl} self,vader,tcp)
  run("two ranks" ${MPIEXEC} --oversubscribe --bind-to none -n 2
    ${folder}/project/build/data-parallel ${folder}/two.safetensors)
  if(NOT output MATCHES "step 30, 2 ranks: loss [01]\\.")
    message(FATAL_ERROR "unexpected output of two ranks: ${output}")
  endif()
endif()
file(REMOVE_RECURSE ${folder})
