# SPDX-License-Identifier: Apache-2.0
target_link_libraries(device.profiler PRIVATE ah_test_clock)
# The plugin that is profiled is the one on doubles of what NVIDIA provides.
if(AUTOHETE_CUDA_DOUBLE)
  add_dependencies(device.profiler ah_cuda)
  # Not labelled for the thread sanitizer, under which no two lanes of so short a measurement meet; nor beside other tests.
  ah_test_set(device.profiler.cuda LABELS "device;profiler;cuda")
  ah_test_set(device.profiler.cuda RUN_SERIAL TRUE)
  ah_test_set(device.profiler.cuda ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>)
endif()
