# SPDX-License-Identifier: Apache-2.0
# Tests of the device's interface once more, for the CUDA plugin on the tests' double of the runtime: the same sources as
# the CPU device's (tests/support/driver.h). With another plugin in AUTOHETE_PLUGIN_DIR they are tests of a GPU.
if(TARGET device.device_cuda)
  set(sources)
  foreach(name lanes ops gradients)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/tests/device/device_cpu/test_${name}.c)
  endforeach()
  # Single ops (op_case.h), products against double, sums and AdamW to the host's bits.
  set(ops norm rope activation embed cross_entropy)
  foreach(name IN LISTS ops)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/tests/device/device_math/test_${name}.c)
  endforeach()
  target_sources(device.device_cuda PRIVATE ${sources} ${CMAKE_CURRENT_LIST_DIR}/op_ways.c
    ${PROJECT_SOURCE_DIR}/tests/device/device_math/op_case.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_case.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_checks.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_exact.c)
  target_compile_definitions(device.device_cuda PRIVATE CHECK_CUDA)
  target_link_libraries(device.device_cuda PRIVATE ah_train ah_device_cpu ah_test_mirror ah_device_host ah_device)
  add_dependencies(device.device_cuda ah_cuda)
  set(plugin AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>)
  ah_test_cases(device.device_cuda device.device_cuda SOURCES ${sources} LABELS device cuda)
  ah_test_set(device.device_cuda LABELS "device;cuda")
  ah_test_set(device.device_cuda ENVIRONMENT ${plugin})
  # Threads of a block go on in a random order, so that a missing barrier shows.
  foreach(name matmul ${ops} sums adamw)
    ah_test_set(device.device_cuda.${name} ENVIRONMENT "${plugin};AUTOHETE_CUDA_DOUBLE=order=11")
  endforeach()
  # The same once more with what nvcc made of the kernels (tests/double/cuda/ptx): matrix instructions, copies in the
  # background and approximations as GPUs have them, and shared memory watched for missing barriers.
  if(TARGET autohete_cuda_ptx)
    add_dependencies(device.device_cuda autohete_cuda_ptx)
    get_target_property(code autohete_cuda_ptx AUTOHETE_FOLDER)
    list(FILTER sources EXCLUDE REGEX "/test_lanes[.]c$")
    foreach(name sums adamw attention)
      list(APPEND sources ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
    endforeach()
    ah_test_cases(device.device_cuda device.ptx SOURCES ${sources} LABELS device cuda
      ENVIRONMENT ${plugin} AUTOHETE_CUDA_DOUBLE=code=${code})
    # Attention is compared with loops in double there; its differences take longer than all others.
    foreach(case are_of_every_op of_attention)
      ah_test_set(device.ptx.gradients.${case} LABELS "device;cuda;long")
    endforeach()
    # What kernels ask of memory; a sanitizer changes nothing about it.
    if(NOT AUTOHETE_SANITIZE)
      ah_test_script(device.ptx.counts LABELS device cuda ENVIRONMENT ${plugin}
        COMMAND ${DEBIAN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/tools/kernel_counts.py --code ${code}
        --program $<TARGET_FILE:device.device_cuda> norm rope cross_entropy embed attention)
    endif()
  endif()
  # The thread sanitizer has the tests of lanes and of every kind of op once, not of the many sizes of each: it makes a
  # switch among a block's threads slow.
  foreach(name lanes ops)
    ah_test_set(device.device_cuda.${name} LABELS "device;cuda;threads")
  endforeach()
  # How well two clocks agree: by the windows in which they are compared, in test_streams.c.
  ah_test_set(device.device_cuda.lanes.remember_when LABELS "device;cuda;timing")
endif()
