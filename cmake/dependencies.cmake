# Finds the libraries that every build needs. runtime/trainer/CMakeLists.txt finds oneDNN and
# OpenMP. All are Debian packages, which scripts/setup installs.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)
find_package(CLI11 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)

# dlrun_import_archive(TARGET NAME HEADER): defines TARGET from the installed static archive of a
# library. With static archives, dlrun starts faster and runs on nodes that lack the library.
function(dlrun_import_archive target name header)
  find_library(${target}_ARCHIVE NAMES lib${name}.a REQUIRED)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  add_library(${target} STATIC IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_ARCHIVE})
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
endfunction()
dlrun_import_archive(sodium_static sodium sodium.h)
dlrun_import_archive(zlib_static z zlib.h)
# find_package(yaml-cpp) finds only the shared library.
dlrun_import_archive(yaml_cpp_static yaml-cpp yaml-cpp/parser.h)

# common/log.cc compiles spdlog from its headers, with the {fmt} that common/fmt.cc compiles. The
# packaged library and its {fmt} are shared libraries, which the static agent cannot use.
find_path(DLRUN_SPDLOG_INCLUDE spdlog/spdlog.h REQUIRED)
add_library(spdlog_headers INTERFACE)
target_include_directories(spdlog_headers SYSTEM INTERFACE ${DLRUN_SPDLOG_INCLUDE})
target_compile_definitions(spdlog_headers INTERFACE SPDLOG_FMT_EXTERNAL)

# libcurl is loaded at run time when slurmrestd or a download is requested
# (launcher/executors/curl_library.cc), so only its headers are needed here.
find_path(DLRUN_CURL_INCLUDE curl/curl.h REQUIRED)
add_library(curl_headers INTERFACE)
target_include_directories(curl_headers SYSTEM INTERFACE ${DLRUN_CURL_INCLUDE})
