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
ah_test_script(mpi.ends LABELS mpi comm COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/ends.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.status LABELS mpi comm COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/status.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
# Profiles of hosts, and runs on them; in the third ring from the one to the other.
set(hosts ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/hosts.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md)
ah_test_script(mpi.hosts LABELS mpi comm COMMAND ${hosts} ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.whole_hosts LABELS mpi comm long COMMAND ${hosts} --whole
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.saves LABELS mpi comm COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/saves.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
# Whole runs: three plans here, thirty in the third ring.
set(runs ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/runs.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md)
ah_test_script(mpi.runs LABELS mpi comm COMMAND ${runs} ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.many_runs LABELS mpi comm long COMMAND ${runs} --plans 30 --seed 1
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
# Ranks that share states, as threads: four plans here, sixty in the third ring.
ah_test_script(mpi.threads LABELS mpi comm COMMAND ${runs} --threads --plans 4
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.many_threads LABELS mpi comm long COMMAND ${runs} --threads --plans 60 --seed 1
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
# One training through plans for 8, 5, 3, 8 and 1 ranks, disturbed on the way: a chain here, twenty in the third ring.
set(chains ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/chains.py $<TARGET_FILE:autohete>
  ${PROJECT_SOURCE_DIR}/tests/cli/documents/machine-cpu.json ${PROJECT_SOURCE_DIR}/docs/planning.md)
ah_test_script(mpi.chains LABELS mpi comm COMMAND ${chains} ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_script(mpi.many_chains LABELS mpi comm long COMMAND ${chains} --chains 20 --seed 1
  ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:autohete_mpi>)
ah_test_set(mpi.many_chains TIMEOUT 1800)
