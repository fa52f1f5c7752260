# SPDX-License-Identifier: Apache-2.0
# Ranks that are threads, each with a GPU of the double, and messages by the double of NCCL.
if(AUTOHETE_NCCL)
  target_link_libraries(device.cuda_ranks PRIVATE ah_cuda ah_cluster ah_planner ah_train ah_comm_loop ah_device_cpu)
  add_dependencies(device.cuda_ranks ah_cuda)
  ah_test_set(device.cuda_ranks LABELS "device;cuda")
  ah_test_set(device.cuda_ranks.nccl LABELS "device;cuda;threads")
  ah_test_script(device.cuda_ranks.run LABELS device cuda COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh $<TARGET_FILE:autohete>
    $<TARGET_FILE:ah_cuda> ${PROJECT_SOURCE_DIR})
endif()
