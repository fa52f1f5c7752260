# SPDX-License-Identifier: Apache-2.0
# Options, language settings, warnings and sanitizers: everything that is the same for every room.
include(GNUInstallDirs)

option(AUTOHETE_TESTS "Build the tests" OFF)
option(AUTOHETE_BENCH "Build the benchmarks" OFF)
option(AUTOHETE_FUZZ "Build the fuzz targets with libFuzzer (needs clang)" OFF)
option(AUTOHETE_WERROR "Warnings are errors" OFF)
set(AUTOHETE_CUDA AUTO CACHE STRING "CUDA plugin: AUTO (if the toolkit is found), ON, OFF")
set_property(CACHE AUTOHETE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(AUTOHETE_SANITIZE "" CACHE STRING "Sanitizers for every target: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")

add_compile_definitions(_GNU_SOURCE AUTOHETE_VERSION="${PROJECT_VERSION}")
# nvcc's flags are its target's; these are for C, and C++ in the double of CUDA.
set(in_c $<COMPILE_LANGUAGE:C>)
set(in_both $<COMPILE_LANGUAGE:C,CXX>)
# The arithmetic contract: a product and a sum are fused only where the source says fma().
add_compile_options("$<${in_both}:-ffp-contract=off;-fno-fast-math>")
set(warnings -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wpointer-arith -Wcast-qual -Wwrite-strings
  -Wundef -Wvla -Wformat=2 -Wdouble-promotion -Wswitch-enum -Wnull-dereference)
add_compile_options("$<${in_both}:${warnings}>")
add_compile_options("$<${in_c}:-Wstrict-prototypes;-Wmissing-prototypes;-Wold-style-definition>")
# A program's name for itself (base/build_id.h); not every linker gives one unasked.
add_link_options("$<$<LINK_LANGUAGE:C,CXX>:-Wl,--build-id=sha1>")
if(AUTOHETE_WERROR)
  add_compile_options("$<${in_both}:-Werror>")
endif()
if(AUTOHETE_SANITIZE)
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG") # half the time to compile
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
  add_compile_options("$<${in_both}:-fsanitize=${AUTOHETE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=${AUTOHETE_SANITIZE})
  # GCC's flow analysis reports null dereferences and unset variables that are none in instrumented code.
  add_compile_options("$<${in_both}:-Wno-null-dereference;-Wno-maybe-uninitialized>")
endif()

# No function of a room has more than this on the stack, so that 256 KiB of stack do for every verb (cli.small-stack).
set(frame_flag "")
if(NOT AUTOHETE_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(frame_flag "$<${in_c}:-Wframe-larger-than=131072>") # bytes; unoptimised and instrumented code has larger frames
endif()

# Rooms in which tests spend their time are optimised under sanitizers, too: plans take 15 % less of it, trainings 25 %.
set(hot_flag "")
if(AUTOHETE_SANITIZE)
  set(hot_flag "$<${in_c}:-O2>")
endif()

# ah_room(NAME [HOT] SOURCES ... LIBS ...): a room's static library. Rooms include each other from the root of the
# tree ("base/error.h"); which room may use which is in LIBS here and held by tests/style.
function(ah_room name)
  cmake_parse_arguments(ROOM "HOT" "" "SOURCES;LIBS;PRIVATE_LIBS" ${ARGN})
  add_library(ah_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(ah_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(ah_${name} PRIVATE ${frame_flag} $<$<BOOL:${ROOM_HOT}>:${hot_flag}>)
  target_link_libraries(ah_${name} PUBLIC ${ROOM_LIBS} PRIVATE ${ROOM_PRIVATE_LIBS})
endfunction()
