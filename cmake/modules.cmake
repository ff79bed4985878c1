# Makes the files of the build tree and of the installation identical, because dlrun contains the
# hash of each program and module that it copies beside the runs. The files contain no path of the
# build tree, so the installation does not need to change them.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# dlrun_module(TARGET NAME SOURCES a.cc... LIBS lib...): builds the module lib/dlrun/dlrun-NAME.so
# beside bin/. runtime/bootstrap/shared_module.h loads modules. A program needs the libraries of a
# module only when the module is loaded.
function(dlrun_module target name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE dlrun_options ${ARG_LIBS})
  # In a release build, the linker strips the module. Tools of packagers must not strip it later,
  # because dlrun contains its hash.
  target_link_options(${target} PRIVATE $<$<CONFIG:Release>:LINKER:-s>)
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME dlrun-${name}
    CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/dlrun)
  install(TARGETS ${target} LIBRARY DESTINATION lib/dlrun COMPONENT trainer)
  # cli/CMakeLists.txt hashes the files in this list.
  set_property(GLOBAL APPEND PROPERTY DLRUN_MODULES ${target})
endfunction()
