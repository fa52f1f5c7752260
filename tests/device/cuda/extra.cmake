# SPDX-License-Identifier: Apache-2.0
# The CUDA plugin as it was built: `plugin` loads it, `needed` looks at what the loader would load with it. The other
# tests here are of the same sources on the double of CUDA.
if(AUTOHETE_CUDA_DOUBLE)
  target_link_libraries(device.cuda PRIVATE ah_train ah_device_cpu)
  # The thread sanitizer has no time for trainings; what lanes do in one, they do in the tests of streams and faults.
  foreach(module training groups remarks)
    ah_test_set(device.cuda.${module} LABELS "device;cuda")
  endforeach()
  foreach(script doctor stall remarks)
    ah_test_script(device.cuda.${script} LABELS device cuda COMMAND ${CMAKE_CURRENT_LIST_DIR}/${script}.sh
      $<TARGET_FILE:autohete> $<TARGET_FILE:ah_cuda> ${PROJECT_SOURCE_DIR})
  endforeach()
endif()
if(TARGET autohete_cuda)
  ah_test_program(device.cuda.plugin SOURCES ${CMAKE_CURRENT_LIST_DIR}/plugin.c LIBS ah_device)
  add_dependencies(device.cuda.plugin autohete_cuda)
  ah_test_cases(device.cuda.plugin device.cuda SOURCES ${CMAKE_CURRENT_LIST_DIR}/plugin.c LABELS device cuda
    ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_cuda>)
  ah_test_script(device.cuda.needed LABELS device cuda
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/needed.sh $<TARGET_FILE:autohete_cuda>)
elseif(AUTOHETE_CUDA STREQUAL "AUTO" AND NOT AUTOHETE_SANITIZE)
  ah_test_script(device.cuda.plugin LABELS device cuda
    COMMAND sh -c "echo 'no CUDA toolkit: the plugin was not built'; exit 77")
endif()
