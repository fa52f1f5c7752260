# SPDX-License-Identifier: Apache-2.0
# Timelines as they are written: traces as JSON, the page in a headless Chromium.
foreach(name trace run_trace page prospects_page diff_page cluster_page report_page)
  ah_test_script(cli.${name} LABELS cli
    COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/${name}.py --program $<TARGET_FILE:autohete>)
endforeach()
ah_test_script(cli.run_trace_times LABELS cli timing
  COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/run_trace.py --times --program $<TARGET_FILE:autohete>)
if(TARGET ah_cuda) # kernels and copies, as the double of CUPTI records them
  set(recorded ENVIRONMENT AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>
    COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/run_trace.py --recorded --program $<TARGET_FILE:autohete>)
  ah_test_script(cli.run_trace_cuda LABELS cli cuda ${recorded})
  ah_test_script(cli.run_trace_cuda_times LABELS cli cuda timing ${recorded} --times)
endif()
