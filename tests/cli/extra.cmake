# SPDX-License-Identifier: Apache-2.0
# The command line from outside: one test a case file (run.py says how they are written).
file(GLOB cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cases/*.case)
foreach(case IN LISTS cases)
  cmake_path(GET case STEM name)
  ah_test_script(cli.${name} LABELS cli
    COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/run.py --program $<TARGET_FILE:autohete> ${case})
endforeach()
# It measures for minutes; unit and device tests see it.
ah_test_set(cli.profile-emulate LABELS "cli;long")
