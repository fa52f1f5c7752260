# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts in place. Not under sanitizers, whose programs need their runtime.
if(TARGET autohete AND NOT AUTOHETE_SANITIZE)
  if(TARGET autohete_cuda)
    set(with_plugin plugin)
  else()
    set(with_plugin no-plugin)
  endif()
  ah_test_script(install.starts_without_cuda LABELS install
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/starts_without_cuda.sh ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${with_plugin})
endif()
