# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin as it was built: `plugin` loads it, `needed` looks at what the loader would load with it. The other
# tests here are of the same sources on the double of CUDA.
# The thread sanitizer has no time for trainings; what lanes do in one, they do in the tests of streams and faults.
if(TARGET device.cuda.training)
  set_tests_properties(device.cuda.training device.cuda.groups PROPERTIES LABELS "device;cuda")
endif()
if(AUTOHETE_CUDA_DOUBLE)
  add_custom_target(device.cuda.doctor DEPENDS autohete ah_cuda)
  add_test(NAME device.cuda.doctor
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/doctor.sh $<TARGET_FILE:autohete> $<TARGET_FILE:ah_cuda>)
  set_tests_properties(device.cuda.doctor PROPERTIES TIMEOUT 60 LABELS "device;cuda")
  add_custom_target(device.cuda.stall DEPENDS autohete ah_cuda)
  add_test(NAME device.cuda.stall COMMAND ${CMAKE_CURRENT_LIST_DIR}/stall.sh $<TARGET_FILE:autohete> $<TARGET_FILE:ah_cuda>
    ${PROJECT_SOURCE_DIR})
  set_tests_properties(device.cuda.stall PROPERTIES TIMEOUT 300 LABELS "device;cuda")
  add_custom_target(device.cuda.said DEPENDS autohete ah_cuda)
  add_test(NAME device.cuda.said COMMAND ${CMAKE_CURRENT_LIST_DIR}/remarks.sh $<TARGET_FILE:autohete> $<TARGET_FILE:ah_cuda>
    ${PROJECT_SOURCE_DIR})
  set_tests_properties(device.cuda.said PROPERTIES TIMEOUT 300 LABELS "device;cuda")
endif()
if(TARGET autohete_cuda)
  add_executable(device.cuda.plugin ${CMAKE_CURRENT_LIST_DIR}/plugin.c)
  target_link_libraries(device.cuda.plugin PRIVATE ah_device ah_test_support PkgConfig::CMOCKA)
  add_dependencies(device.cuda.plugin autohete_cuda)
  add_test(NAME device.cuda.plugin COMMAND device.cuda.plugin)
  set_tests_properties(device.cuda.plugin PROPERTIES
    ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_cuda>")

  add_test(NAME device.cuda.needed COMMAND ${CMAKE_CURRENT_LIST_DIR}/needed.sh $<TARGET_FILE:autohete_cuda>)
  set_tests_properties(device.cuda.plugin device.cuda.needed PROPERTIES
    TIMEOUT 60 LABELS "device;cuda")
elseif(AUTOHETE_CUDA STREQUAL "AUTO" AND NOT AUTOHETE_SANITIZE)
  add_test(NAME device.cuda.plugin COMMAND sh -c "echo 'no CUDA toolkit: the plugin was not built'; exit 77")
  set_tests_properties(device.cuda.plugin PROPERTIES SKIP_RETURN_CODE 77 LABELS "device;cuda")
endif()
