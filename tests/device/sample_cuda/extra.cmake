# SPDX-License-Identifier: Apache-2.0
# A speaker on the CUDA plugin, on the tests' double of the runtime. Slow copies show who reads too early, slow kernels
# who overwrites too early.
if(TARGET device.sample_cuda)
  target_link_libraries(device.sample_cuda PRIVATE ah_sample ah_test_mirror ah_device)
  add_dependencies(device.sample_cuda ah_cuda)
  set(plugin AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>)
  ah_test_set(device.sample_cuda LABELS "device;cuda")
  ah_test_set(device.sample_cuda ENVIRONMENT "${plugin};AUTOHETE_CUDA_DOUBLE=copy_delay_us=100")
  ah_test_cases(device.sample_cuda device.sample_cuda_late SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_speaker.c
    LABELS device cuda ENVIRONMENT ${plugin} AUTOHETE_CUDA_DOUBLE=kernel_delay_us=100)
endif()
