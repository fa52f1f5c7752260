# SPDX-License-Identifier: Apache-2.0
target_link_libraries(fault.train PRIVATE ah_device_cpu ah_comm_loop)
# Libraries' allocations, too: by functions of its own in place of the C library's, which sanitizers do themselves.
if(NOT AUTOHETE_SANITIZE)
  ah_test_program(fault.train.allocations SOURCES ${CMAKE_CURRENT_LIST_DIR}/allocations.c
    LIBS ah_train ah_planner ah_device_cpu)
  set_target_properties(fault.train.allocations PROPERTIES ENABLE_EXPORTS ON)
  ah_test_cases(fault.train.allocations fault.train SOURCES ${CMAKE_CURRENT_LIST_DIR}/allocations.c LABELS fault train)
endif()
