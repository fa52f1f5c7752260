# SPDX-License-Identifier: Apache-2.0
# The libraries we stand on, each used in one room only (docs/architecture.md names the room).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
if(AUTOHETE_BENCH) # oneDNN is what matrix products are compared with
  find_library(DNNL_LIBRARY NAMES dnnl REQUIRED)
  find_path(DNNL_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h REQUIRED)
  add_library(autohete_dnnl INTERFACE)
  target_link_libraries(autohete_dnnl INTERFACE ${DNNL_LIBRARY})
  target_include_directories(autohete_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
endif()
find_library(GLPK_LIBRARY NAMES glpk REQUIRED)
find_path(GLPK_INCLUDE_DIR NAMES glpk.h REQUIRED)
add_library(autohete_glpk INTERFACE)
target_link_libraries(autohete_glpk INTERFACE ${GLPK_LIBRARY})
target_include_directories(autohete_glpk SYSTEM INTERFACE ${GLPK_INCLUDE_DIR})
find_library(MATH_LIBRARY NAMES m REQUIRED)
