# SPDX-License-Identifier: Apache-2.0
# Timelines as they are written: traces as JSON, the page in a headless Chromium.
foreach(name trace run_trace page)
  add_custom_target(cli.${name} DEPENDS autohete)
  add_test(NAME cli.${name}
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/${name}.py --program $<TARGET_FILE:autohete>)
  set_tests_properties(cli.${name} PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
