# SPDX-License-Identifier: Apache-2.0
# The command line from outside: one test a case file (run.py says how they are written). Each has a target of its
# name, so that what a test needs is built by naming it, as with every other test.
file(GLOB cases CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cases/*.case)
set(case_arguments)
if(AUTOHETE_SANITIZE)
  set(case_arguments --short)
  list(FILTER cases EXCLUDE REGEX "/profile-emulate[.]case$") # measures for minutes; unit and device tests see it
endif()
foreach(case IN LISTS cases)
  cmake_path(GET case STEM name)
  add_custom_target(cli.${name} DEPENDS autohete)
  add_test(NAME cli.${name}
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/run.py --program $<TARGET_FILE:autohete>
      ${case_arguments} ${case})
  set_tests_properties(cli.${name} PROPERTIES LABELS cli TIMEOUT 900)
endforeach()
