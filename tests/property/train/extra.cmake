# SPDX-License-Identifier: Apache-2.0
target_sources(property.train PRIVATE ${CMAKE_CURRENT_LIST_DIR}/poison.c)
target_link_libraries(property.train PRIVATE ah_test_hooked ah_cluster ah_planner ah_recovery ah_comm_loop)
foreach(module exact fits loss measured_ranks planned_ranks ranks rank_ends rank_resumes rank_status rank_traces soak)
  ah_test_set(property.train.${module} LABELS "property;train;threads")
endforeach()
