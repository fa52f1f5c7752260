# SPDX-License-Identifier: Apache-2.0
# The rules that hold the house together, one test each (tests/style/style.py).
foreach(check direction headers licence finished names length format scripts symbols globals links words columns heads
              contracts twins mutants)
  ah_test_script(style.${check} LABELS style
    COMMAND ${DEBIAN_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/style.py ${check} --build ${PROJECT_BINARY_DIR})
endforeach()
