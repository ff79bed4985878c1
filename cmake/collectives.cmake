# Finds MPI, Gloo and PMIx, the libraries of the collective backends and of their rendezvous
# (cuda.cmake finds NCCL). All are optional: a backend without its library is not built, and a
# request for it fails with a message.
find_package(MPI COMPONENTS CXX)
option(DLRUN_WITHOUT_GLOO "Build without Gloo, even if it is installed" OFF)
option(DLRUN_WITHOUT_PMIX "Build without PMIx, even if it is installed" OFF)

find_path(GLOO_INCLUDE_DIR gloo/rendezvous/context.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY AND NOT DLRUN_WITHOUT_GLOO)
  add_library(gloo UNKNOWN IMPORTED)
  set_target_properties(gloo PROPERTIES IMPORTED_LOCATION ${GLOO_LIBRARY})
  target_include_directories(gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
endif()

# Without an agent, ranks that srun or mpirun started find each other through PMIx. MPI libraries
# do this by themselves.
pkg_check_modules(PMIX QUIET pmix)
find_path(PMIX_INCLUDE_DIR pmix.h PATHS ${PMIX_INCLUDE_DIRS})
find_library(PMIX_LIBRARY pmix PATHS ${PMIX_LIBRARY_DIRS})
if(PMIX_INCLUDE_DIR AND PMIX_LIBRARY AND NOT DLRUN_WITHOUT_PMIX)
  add_library(pmix UNKNOWN IMPORTED)
  set_target_properties(pmix PROPERTIES IMPORTED_LOCATION ${PMIX_LIBRARY})
  target_include_directories(pmix SYSTEM INTERFACE ${PMIX_INCLUDE_DIR})
endif()
