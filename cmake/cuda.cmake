# Finds the CUDA language, NCCL and cuDNN. DLRUN_CUDA is AUTO, ON (fails if one of the three is
# missing) or OFF (finds none).
#
# Sets DLRUN_HAS_CUDA (nvcc works), DLRUN_HAS_NCCL and DLRUN_HAS_CUDNN. The trainer's GPU module
# needs nvcc and cuDNN; the backend nccl needs nvcc and NCCL. No program links these libraries: CUDA
# code is in modules (dlrun_module) that are loaded on request, so that one build also runs on nodes
# without CUDA.
set(DLRUN_HAS_CUDA OFF)
set(DLRUN_HAS_NCCL OFF)
set(DLRUN_HAS_CUDNN OFF)

# find_gpu_library(NAME HEADER WHAT): defines the target NAME and sets DLRUN_HAS_<NAME> if the
# header and the library are found. WHAT is the text for both in the error message.
function(find_gpu_library name header what)
  string(TOUPPER ${name} upper)
  find_path(${upper}_INCLUDE_DIR ${header} HINTS ENV ${upper}_HOME ${CUDAToolkit_INCLUDE_DIRS}
    PATH_SUFFIXES include)
  find_library(${upper}_LIBRARY ${name} HINTS ENV ${upper}_HOME ${CUDAToolkit_LIBRARY_DIR}
    ${CUDAToolkit_LIBRARY_ROOT} PATH_SUFFIXES lib lib64)
  if(${upper}_INCLUDE_DIR AND ${upper}_LIBRARY)
    add_library(${name} UNKNOWN IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${${upper}_LIBRARY})
    target_include_directories(${name} SYSTEM INTERFACE ${${upper}_INCLUDE_DIR})
    set(DLRUN_HAS_${upper} ON PARENT_SCOPE)
  elseif(DLRUN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DLRUN_CUDA is ON, but ${what} was not found; set ${upper}_HOME")
  endif()
endfunction()
if(DLRUN_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(DLRUN_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(DLRUN_NVCC)
    set(CMAKE_CUDA_COMPILER ${DLRUN_NVCC})
  endif()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80;90" CACHE STRING
    "GPU architectures to compile for: A100, H100/H200; newer GPUs run the newest PTX")
endif()
if(DLRUN_CUDA STREQUAL "AUTO" AND NOT CMAKE_CUDA_COMPILER)
  check_language(CUDA)
endif()
if(DLRUN_CUDA STREQUAL "ON" OR CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
  set(DLRUN_HAS_CUDA ON)

  find_gpu_library(nccl nccl.h "nccl.h or libnccl")
  # Version 9 of cuDNN is the first one with this header.
  find_gpu_library(cudnn cudnn_graph.h "cuDNN 9 (cudnn_graph.h, libcudnn)")
endif()
if(DLRUN_HAS_CUDA)
  message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, "
    "NCCL: ${DLRUN_HAS_NCCL}, cuDNN 9: ${DLRUN_HAS_CUDNN}")
else()
  message(STATUS "CUDA: no nvcc; built without GPUs")
endif()
