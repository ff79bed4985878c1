# Compiles the headers that most files include once for several targets, which saves a quarter of
# a build's time. Only the grouped builds (CMAKE_UNITY_BUILD) do this: the dev build must still find
# a file that lacks an #include.

set(DLRUN_COMMON_HEADERS
  <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory>
  <optional> <set> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>
  <nlohmann/json.hpp>)

# dlrun_precompile(TARGET [HEADERS...]): TARGET compiles the common headers and HEADERS first.
function(dlrun_precompile target)
  if(CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE ${DLRUN_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()

# dlrun_share_precompiled(OWNER TARGETS...): TARGETS use the compiled headers of OWNER, which must
# have the same compile options.
function(dlrun_share_precompiled owner)
  if(CMAKE_UNITY_BUILD)
    foreach(target ${ARGN})
      target_precompile_headers(${target} REUSE_FROM ${owner})
    endforeach()
  endif()
endfunction()
