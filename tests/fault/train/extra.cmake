# SPDX-License-Identifier: Apache-2.0
target_link_libraries(fault.train.trainer PRIVATE ah_device_cpu)
# Libraries' allocations, too: by functions of its own in place of the C library's, which sanitizers do themselves.
if(NOT AUTOHETE_SANITIZE)
  add_executable(fault.train.allocations ${CMAKE_CURRENT_LIST_DIR}/allocations.c)
  target_link_libraries(fault.train.allocations PRIVATE ah_train ah_planner ah_device_cpu ah_test_support
    PkgConfig::CMOCKA)
  set_target_properties(fault.train.allocations PROPERTIES ENABLE_EXPORTS ON)
  add_test(NAME fault.train.allocations COMMAND fault.train.allocations WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(fault.train.allocations PROPERTIES LABELS "fault;train" TIMEOUT 900)
endif()
