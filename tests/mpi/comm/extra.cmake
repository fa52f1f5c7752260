# SPDX-License-Identifier: Apache-2.0
# Ranks that mpirun starts: root, and more ranks than processors, are the tests' business, not the product's. Under sanitizers
# there are none: MPI's own libraries do not know them.
if(AUTOHETE_SANITIZE)
  return()
endif()
if(NOT TARGET autohete_mpi)
  ah_test_script(mpi.comm LABELS mpi comm COMMAND ${CMAKE_CURRENT_LIST_DIR}/ranks.sh)
  return()
endif()
add_executable(mpi.ranks ${CMAKE_CURRENT_LIST_DIR}/ranks.c)
target_link_libraries(mpi.ranks PRIVATE ah_comm)
add_dependencies(mpi.ranks autohete_mpi)
ah_test_script(mpi.comm LABELS mpi comm COMMAND ${CMAKE_CURRENT_LIST_DIR}/ranks.sh $<TARGET_FILE:mpi.ranks>
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
