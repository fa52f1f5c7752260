# SPDX-License-Identifier: Apache-2.0
# Tests of the device's interface once more, for the CUDA plugin on the tests' double of the runtime: the same sources as
# the CPU device's (tests/support/driver.h). With another plugin in AUTOHETE_PLUGIN_DIR they are tests of a GPU.
if(TARGET ah_cuda)
  target_link_libraries(device.cuda.training PRIVATE ah_train ah_device_cpu)
  target_link_libraries(device.cuda.groups PRIVATE ah_train ah_device_cpu)
  foreach(name lanes ops gradients)
    add_executable(device.cuda.${name} ${PROJECT_SOURCE_DIR}/tests/device/device_cpu/test_${name}.c)
    target_compile_definitions(device.cuda.${name} PRIVATE CHECK_CUDA)
    target_link_libraries(device.cuda.${name} PRIVATE ah_test_mirror ah_device ah_test_support PkgConfig::CMOCKA)
    add_dependencies(device.cuda.${name} ah_cuda)
    add_test(NAME device.cuda.${name} COMMAND device.cuda.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(device.cuda.${name} PROPERTIES TIMEOUT 900 LABELS "device;cuda"
      ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>")
  endforeach()
  foreach(name trainer recording)
    add_executable(device.cuda.${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
    target_link_libraries(device.cuda.${name} PRIVATE ah_train ah_device_cpu ah_test_mirror ah_test_support PkgConfig::CMOCKA)
    add_dependencies(device.cuda.${name} ah_cuda)
    add_test(NAME device.cuda.${name} COMMAND device.cuda.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(device.cuda.${name} PROPERTIES TIMEOUT 900 LABELS "device;cuda;train"
      ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>")
  endforeach()
  add_executable(device.cuda.attention ${CMAKE_CURRENT_LIST_DIR}/attention.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_case.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_exact.c)
  target_link_libraries(device.cuda.attention PRIVATE ah_device ah_test_support PkgConfig::CMOCKA ${MATH_LIBRARY})
  add_dependencies(device.cuda.attention ah_cuda)
  add_test(NAME device.cuda.attention COMMAND device.cuda.attention WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(device.cuda.attention PROPERTIES TIMEOUT 900 LABELS "device;cuda"
    ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>")
  # Single ops (op_case.h): the tests of device_math with their references, products against double, sums and AdamW to
  # the host's bits. Threads of a block go on in a random order, so that a missing barrier shows.
  foreach(name matmul norm rope activation embed cross_entropy sums adamw)
    set(source ${PROJECT_SOURCE_DIR}/tests/device/device_math/test_${name}.c)
    if(NOT EXISTS ${source})
      set(source ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
    endif()
    add_executable(device.cuda.${name} ${source} ${CMAKE_CURRENT_LIST_DIR}/op_ways.c
      ${PROJECT_SOURCE_DIR}/tests/device/device_math/op_case.c)
    target_link_libraries(device.cuda.${name} PRIVATE ah_device_host ah_device ah_test_support PkgConfig::CMOCKA ${MATH_LIBRARY})
    add_dependencies(device.cuda.${name} ah_cuda)
    add_test(NAME device.cuda.${name} COMMAND device.cuda.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(device.cuda.${name} PROPERTIES TIMEOUT 900 LABELS "device;cuda"
      ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>;AUTOHETE_CUDA_DOUBLE=order=11")
  endforeach()
  # The same once more with what nvcc made of the kernels (tests/double/cuda/ptx): matrix instructions, copies in the
  # background and approximations as GPUs have them, and shared memory watched for missing barriers.
  if(TARGET autohete_cuda_ptx)
    get_target_property(code autohete_cuda_ptx AUTOHETE_FOLDER)
    foreach(name norm rope activation embed cross_entropy sums adamw attention ops gradients)
      add_custom_target(device.cuda.ptx_${name} DEPENDS device.cuda.${name} autohete_cuda_ptx)
      add_test(NAME device.cuda.ptx_${name} COMMAND device.cuda.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(device.cuda.ptx_${name} PROPERTIES TIMEOUT 900 LABELS "device;cuda"
        ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>;AUTOHETE_CUDA_DOUBLE=code=${code};AH_TEST_SHORT=1")
    endforeach()
    # What kernels ask of memory; a sanitizer changes nothing about it.
    if(NOT AUTOHETE_SANITIZE)
      set(programs device.cuda.norm device.cuda.rope device.cuda.cross_entropy device.cuda.embed device.cuda.attention)
      list(TRANSFORM programs REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
      add_custom_target(device.cuda.ptx_counts DEPENDS ${programs} autohete_cuda_ptx)
      add_test(NAME device.cuda.ptx_counts COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/tools/kernel_counts.py
        --code ${code} ${files} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
      set_tests_properties(device.cuda.ptx_counts PROPERTIES TIMEOUT 900 LABELS "device;cuda"
        ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>")
    endif()
  endif()
  # The thread sanitizer has the tests of lanes and of every kind of op once, not of the many sizes of each: it makes a
  # switch among a block's threads slow.
  foreach(name lanes ops)
    set_tests_properties(device.cuda.${name} PROPERTIES LABELS "device;cuda;threads")
  endforeach()
endif()
