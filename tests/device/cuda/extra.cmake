# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin. It is no target ah_cuda, hence these lines: `probe` runs its source on a double of the CUDA runtime,
# `plugin` loads what was built, `needed` looks at what the loader would load with it.
if(TARGET autohete_cuda)
  add_executable(device.cuda.probe ${CMAKE_CURRENT_LIST_DIR}/probe.c ${CMAKE_CURRENT_LIST_DIR}/cudart_double.c
    ${PROJECT_SOURCE_DIR}/runtime/device/cuda/cuda.c)
  target_include_directories(device.cuda.probe SYSTEM PRIVATE ${AUTOHETE_CUDA_INCLUDE_DIRS})
  target_link_libraries(device.cuda.probe PRIVATE ah_device ah_test_support PkgConfig::CMOCKA)
  add_test(NAME device.cuda.probe COMMAND device.cuda.probe)

  add_executable(device.cuda.plugin ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
  target_link_libraries(device.cuda.plugin PRIVATE ah_device ah_test_support PkgConfig::CMOCKA)
  add_dependencies(device.cuda.plugin autohete_cuda)
  add_test(NAME device.cuda.plugin COMMAND device.cuda.plugin)
  set_tests_properties(device.cuda.plugin PROPERTIES
    ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_cuda>")

  add_test(NAME device.cuda.needed COMMAND ${CMAKE_CURRENT_LIST_DIR}/needed.sh $<TARGET_FILE:autohete_cuda>)
  set_tests_properties(device.cuda.probe device.cuda.plugin device.cuda.needed PROPERTIES
    TIMEOUT 60 LABELS "device;cuda")
elseif(AUTOHETE_CUDA STREQUAL "AUTO" AND NOT AUTOHETE_SANITIZE)
  add_test(NAME device.cuda.plugin COMMAND sh -c "echo 'no CUDA toolkit: the plugin was not built'; exit 77")
  set_tests_properties(device.cuda.plugin PROPERTIES SKIP_RETURN_CODE 77 LABELS "device;cuda")
endif()
