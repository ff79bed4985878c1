# cpack reads this file once for each kind of package, before it installs the components.
#
# A program needs its libraries, so the packages of these libraries are required. A module
# (lib/dlrun/*.so) is loaded on request, and only where its library is installed, so the package of
# that library is only recommended.
cmake_policy(VERSION 3.25)
file(GLOB modules ${CPACK_DLRUN_BUILD}/lib/dlrun/dlrun-*.so)
list(FILTER modules EXCLUDE REGEX "dlrun-comm-stale") # A unit test builds this module.

# debian_packages(OUTPUT FILES...): the packages with the libraries that the files need, in the form
# of Depends. Returns an empty list if a library belongs to no package.
function(debian_packages output)
  set(folder ${CPACK_PACKAGE_DIRECTORY}/shlibdeps)
  file(WRITE ${folder}/debian/control "Source: dlrun\n\nPackage: dlrun\nArchitecture: any\n")
  execute_process(COMMAND dpkg-shlibdeps --ignore-missing-info --warnings=0 -O ${ARGN}
    WORKING_DIRECTORY ${folder} OUTPUT_VARIABLE text RESULT_VARIABLE code ERROR_VARIABLE errors
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REMOVE_RECURSE ${folder})
  set(packages "")
  if(code EQUAL 0 AND text MATCHES "shlibs:Depends=([^\n]*)")
    string(REPLACE ", " ";" packages "${CMAKE_MATCH_1}")
  else()
    message(STATUS "${ARGN}: no packages for its libraries: ${errors}")
  endif()
  set(${output} "${packages}" PARENT_SCOPE)
endfunction()

# needed_libraries(OUTPUT FILES...): the names of the libraries that the files need, such as
# libmpi.so.40.
function(needed_libraries output)
  set(libraries "")
  foreach(file ${ARGN})
    execute_process(COMMAND ${CPACK_DLRUN_READELF} -d ${file} OUTPUT_VARIABLE text
      COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "Shared library: \\[[^]]+" found "${text}")
    list(TRANSFORM found REPLACE "Shared library: \\[" "")
    list(APPEND libraries ${found})
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  set(${output} "${libraries}" PARENT_SCOPE)
endfunction()

# without(OUTPUT ALL OTHERS): the packages of the list ALL that are not in the list OTHERS, each
# once. Compares only the names: `libc6 (>= 2.34)` and `libc6 (>= 2.36)` are the same package.
function(without output all others)
  list(TRANSFORM others REPLACE " .*" "")
  set(rest "")
  foreach(item ${all})
    string(REGEX REPLACE " .*" "" name "${item}")
    if(NOT name IN_LIST others)
      list(APPEND rest "${item}")
      list(APPEND others "${name}")
    endif()
  endforeach()
  set(${output} "${rest}" PARENT_SCOPE)
endfunction()

# Debian's tools do not wrap lines, so these have at most 79 columns.
set(about_dlrun "One YAML file describes a job. dlrun checks the file, submits the job to Slurm
or runs it on this machine, starts the ranks of any framework, names the rank
that failed, and restarts the job from its checkpoint.")
set(about_trainer "The data-parallel trainer that comes with dlrun, for specs with the preset
trainer and for checks of collectives. It finds Open MPI, Gloo, PMIx and NCCL
when it runs, where these are installed.")
set(about_devel "Headers and static libraries for C++ programs that train data-parallel with
dlrun's library. CMake finds them with find_package(dlrun).")
set(program native)
if(CPACK_DLRUN_PORTABLE AND NOT CPACK_GENERATOR STREQUAL "DEB")
  set(program portable) # The portable dlrun also runs on older systems than this one.
endif()

if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_COMPONENTS_ALL ${program} base trainer devel deb_dlrun deb_dlrun_trainer deb_dlrun_dev)
  set(same "(= ${CPACK_PACKAGE_VERSION})")
  debian_packages(dlrun_needs ${CPACK_DLRUN_BUILD}/bin/dlrun)
  debian_packages(trainer_needs ${CPACK_DLRUN_BUILD}/bin/dlrun-trainer)
  set(module_needs "")
  foreach(module ${modules})
    debian_packages(packages ${module})
    list(APPEND module_needs ${packages})
  endforeach()
  without(module_needs "${module_needs}" "${trainer_needs}")
  list(JOIN dlrun_needs ", " CPACK_DEBIAN_DLRUN_PACKAGE_DEPENDS)
  list(JOIN module_needs ", " CPACK_DEBIAN_TRAINER_PACKAGE_RECOMMENDS)
  list(JOIN trainer_needs ", " trainer_needs)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "dlrun ${same}, ${trainer_needs}")
  set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS
    "dlrun-trainer ${same}, libdnnl-dev, libexpected-dev, libfmt-dev, libsodium-dev, zlib1g-dev")
  set(CPACK_DEBIAN_DLRUN_PACKAGE_RECOMMENDS
    "dlrun-trainer ${same}, ca-certificates, curl, libcurl4 | libcurl3-gnutls")
  set(CPACK_DEBIAN_DLRUN_PACKAGE_SUGGESTS "openssh-client, rsync, slurm-client")
  set(CPACK_DEBIAN_DLRUN_PACKAGE_NAME dlrun)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME dlrun-trainer)
  set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME dlrun-dev)
  set(CPACK_DEBIAN_DLRUN_DESCRIPTION "${about_dlrun}")
  set(CPACK_DEBIAN_TRAINER_DESCRIPTION "${about_trainer}")
  set(CPACK_DEBIAN_DEVEL_DESCRIPTION "${about_devel}")
  set(CPACK_DEBIAN_DLRUN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_TRAINER_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CPACK_PACKAGE_CONTACT}")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
elseif(CPACK_GENERATOR STREQUAL "RPM")
  set(CPACK_COMPONENTS_ALL ${program} base license trainer devel)
  set(CPACK_RPM_PACKAGE_RELEASE 1)
  set(same "= ${CPACK_PACKAGE_VERSION}-${CPACK_RPM_PACKAGE_RELEASE}")
  needed_libraries(trainer_needs ${CPACK_DLRUN_BUILD}/bin/dlrun-trainer)
  needed_libraries(module_needs ${modules})
  list(REMOVE_ITEM module_needs ${trainer_needs})
  list(TRANSFORM module_needs APPEND "()(64bit)")
  list(JOIN module_needs ", " module_needs)
  # CPack has no variable for Recommends, and writes the text of Requires as it is.
  set(CPACK_RPM_DLRUN_PACKAGE_REQUIRES "/bin/sh\nRecommends: dlrun-trainer ${same}, curl")
  set(CPACK_RPM_TRAINER_PACKAGE_REQUIRES "dlrun ${same}")
  if(module_needs)
    string(APPEND CPACK_RPM_TRAINER_PACKAGE_REQUIRES "\nRecommends: ${module_needs}")
  endif()
  set(CPACK_RPM_DEVEL_PACKAGE_REQUIRES "dlrun-trainer ${same}")
  set(CPACK_RPM_REQUIRES_EXCLUDE_FROM "^.*/lib/dlrun/.*[.]so$")
  # Without these settings, rpmbuild would strip and compress files, offer the modules as libraries
  # to other packages, and put folders of the system into the package.
  set(CPACK_RPM_SPEC_INSTALL_POST "/bin/true")
  set(CPACK_RPM_SPEC_MORE_DEFINE
    "Packager: ${CPACK_PACKAGE_CONTACT}
%global __provides_exclude_from ^.*/lib/dlrun/.*[.]so$
%define _build_id_links none")
  set(folders "")
  foreach(folder man man/man1 doc bash-completion bash-completion/completions zsh
          zsh/site-functions fish fish/vendor_completions.d)
    list(APPEND folders /usr/share/${folder})
  endforeach()
  set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION ${folders} /usr/lib/cmake)
  set(CPACK_RPM_MAIN_COMPONENT dlrun)
  set(CPACK_RPM_PACKAGE_NAME dlrun)
  set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0")
  set(CPACK_RPM_PACKAGE_GROUP "Applications/Engineering")
  set(CPACK_RPM_DEVEL_PACKAGE_GROUP "Development/Libraries")
  set(CPACK_RPM_DLRUN_PACKAGE_SUMMARY "Deep-learning jobs on Slurm clusters from one YAML file")
  set(CPACK_RPM_TRAINER_PACKAGE_SUMMARY "The data-parallel trainer of dlrun")
  set(CPACK_RPM_DEVEL_PACKAGE_SUMMARY "Headers and libraries of the trainer of dlrun")
  set(CPACK_RPM_DLRUN_PACKAGE_DESCRIPTION "${about_dlrun}")
  set(CPACK_RPM_TRAINER_PACKAGE_DESCRIPTION "${about_trainer}")
  set(CPACK_RPM_DEVEL_PACKAGE_DESCRIPTION "${about_devel}")
  set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
else()
  set(CPACK_COMPONENTS_ALL ${program} base license trainer)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
endif()
