# SPDX-License-Identifier: Apache-2.0
# The rules that hold the house together, one test each (tests/style/style.py).
foreach(check direction headers licence finished names length format scripts symbols globals links)
  add_test(NAME style.${check}
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/style.py ${check} --build ${PROJECT_BINARY_DIR})
  set_tests_properties(style.${check} PROPERTIES LABELS style TIMEOUT 900)
endforeach()
