# Precompiled headers. Most of our files include the JSON library, {fmt} and a dozen standard
# headers, and the compiler needs a third of its time to read them. Compilers accept a precompiled
# header only with the options that it was made with, so there is one for each set of options.
#
# A file must still include what it uses: the presets tsan and fuzz build without precompiled
# headers.
option(DLRUN_PRECOMPILE "Precompile the headers that most files include" ON)

set(DLRUN_PRECOMPILED_HEADERS <algorithm> <chrono> <filesystem> <functional> <map> <memory>
  <optional> <set> <span> <string> <string_view> <vector> <fmt/format.h> <nlohmann/json.hpp>
  <tl/expected.hpp>)

# dlrun_precompiled_headers(NAME [HEADERS <a>... LIBS lib... OPTIONS -x...]): makes the target NAME,
# whose precompiled headers dlrun_precompile() shares. It has the compile options of this directory
# and OPTIONS. LIBS are the libraries of the additional HEADERS.
function(dlrun_precompiled_headers name)
  if(NOT DLRUN_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS;OPTIONS" ${ARGN})
  set(source ${PROJECT_BINARY_DIR}/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// A precompiled header needs one source.\n")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE dlrun_options tl::expected nlohmann_json::nlohmann_json
    ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${DLRUN_PRECOMPILED_HEADERS} ${ARG_HEADERS})
endfunction()

# dlrun_precompile(NAME FOLDERS...): the programs and static libraries of the folders, and of those
# below them, use the precompiled headers of NAME.
function(dlrun_precompile name)
  if(NOT DLRUN_PRECOMPILE)
    return()
  endif()
  foreach(folder IN LISTS ARGN)
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(type ${target} TYPE)
      get_target_property(is_shared ${target} POSITION_INDEPENDENT_CODE)
      if(type MATCHES "STATIC_LIBRARY|EXECUTABLE" AND NOT is_shared)
        target_precompile_headers(${target} REUSE_FROM ${name})
      endif()
    endforeach()
    get_property(below DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
    dlrun_precompile(${name} ${below})
  endforeach()
endfunction()
