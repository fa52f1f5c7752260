# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit: what is built with it, and the languages that takes.
#
#   AUTOHETE_CUDA_PLUGIN   the plugin is built: nvcc compiles its kernels, for AUTOHETE_CUDA_ARCHITECTURES
#   AUTOHETE_CUDA_DOUBLE   the tests' double of it is built: a C++ compiler takes the same sources, on the toolkit's
#                          headers alone, with the sanitizers of the build
#   AUTOHETE_NCCL          both have messages between GPUs: nccl.h was found
#
# AUTOHETE_CUDA: AUTO builds both where the toolkit is, the plugin not with sanitizers; ON fails where the toolkit is
# not; OFF builds neither.
set(AUTOHETE_CUDA_PLUGIN OFF)
set(AUTOHETE_CUDA_DOUBLE OFF)
set(AUTOHETE_NCCL OFF)
if(AUTOHETE_CUDA STREQUAL "OFF")
  return()
endif()
set(AUTOHETE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
  "What the plugin's kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES: 80-real is sm_80, 90 is sm_90 and PTX")

find_package(CUDAToolkit QUIET)
find_path(AUTOHETE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(AUTOHETE_NCCL_INCLUDE)
if(AUTOHETE_NCCL_INCLUDE)
  set(AUTOHETE_NCCL ON)
endif()
set(missing "")
if(NOT TARGET CUDA::cudart_static)
  set(missing "no CUDA toolkit with libcudart_static.a was found on PATH or in /usr/local/cuda")
elseif(AUTOHETE_SANITIZE AND AUTOHETE_CUDA STREQUAL "AUTO")
  message(STATUS "CUDA plugin: not built with sanitizers (AUTOHETE_CUDA=ON builds it)")
else()
  # The toolkit may be off PATH; its compiler is taken from where its libraries were found.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${AUTOHETE_CUDA_ARCHITECTURES})
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(AUTOHETE_CUDA_PLUGIN ON)
    message(STATUS "CUDA plugin: built with toolkit ${CUDAToolkit_VERSION} for ${AUTOHETE_CUDA_ARCHITECTURES}")
    if(NOT AUTOHETE_NCCL)
      message(STATUS "CUDA plugin: built without NCCL, so GPUs cannot train together: no nccl.h was found")
    endif()
  else()
    set(missing "its compiler nvcc does not work beside '${CMAKE_C_COMPILER}'; see CMakeFiles/CMakeError.log")
  endif()
endif()
if(missing AND AUTOHETE_CUDA STREQUAL "ON")
  message(FATAL_ERROR "AUTOHETE_CUDA=ON, but ${missing}. Install it (Debian: apt-get install nvidia-cuda-toolkit, or "
    "https://developer.nvidia.com/cuda-downloads), or name it with -DCUDAToolkit_ROOT=DIR.")
elseif(missing)
  message(STATUS "CUDA plugin: not built, ${missing}")
endif()

# Fuzz targets are built with clang alone; they read files and need no GPU. The emulator of thread blocks switches
# stacks by instructions of x86-64 (tests/double/cuda/fiber.c).
if(AUTOHETE_TESTS AND CUDAToolkit_INCLUDE_DIRS AND NOT AUTOHETE_FUZZ AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  include(CheckLanguage)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    set(CMAKE_CXX_STANDARD_REQUIRED ON)
    set(CMAKE_CXX_EXTENSIONS OFF)
    set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
    set(AUTOHETE_CUDA_DOUBLE ON)
  endif()
endif()
