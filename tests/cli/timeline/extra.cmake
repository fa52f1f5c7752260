# SPDX-License-Identifier: Apache-2.0
# Timelines as they are written: traces as JSON, the page in a headless Chromium.
foreach(name trace run_trace page prospects_page diff_page cluster_page)
  add_custom_target(cli.${name} DEPENDS autohete)
  add_test(NAME cli.${name}
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py --program $<TARGET_FILE:autohete>)
  set_tests_properties(cli.${name} PROPERTIES LABELS cli TIMEOUT 900 SKIP_RETURN_CODE 77)
endforeach()
if(TARGET ah_cuda) # kernels and copies, as the double of CUPTI records them
  add_custom_target(cli.run_trace_cuda DEPENDS autohete ah_cuda)
  add_test(NAME cli.run_trace_cuda
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/run_trace.py --recorded --program $<TARGET_FILE:autohete>)
  set_tests_properties(cli.run_trace_cuda PROPERTIES LABELS "cli;cuda" TIMEOUT 900
    ENVIRONMENT "AUTOHETE_PLUGIN_DIR=$<TARGET_FILE_DIR:ah_cuda>")
endif()
