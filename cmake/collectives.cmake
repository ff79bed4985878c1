# What the collective backends build on. Each is optional: a backend whose library is missing is not built, and says so when asked for.
find_package(MPI COMPONENTS CXX)

find_path(GLOO_INCLUDE_DIR gloo/rendezvous/context.h)
find_library(GLOO_LIBRARY gloo)
if(GLOO_INCLUDE_DIR AND GLOO_LIBRARY)
  add_library(gloo UNKNOWN IMPORTED)
  set_target_properties(gloo PROPERTIES IMPORTED_LOCATION ${GLOO_LIBRARY})
  target_include_directories(gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
endif()
