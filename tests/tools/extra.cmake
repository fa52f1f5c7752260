# SPDX-License-Identifier: Apache-2.0
# Programs that tests use are tested themselves.
add_test(NAME tools.plan_checker COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_plan_checker.py)
set_tests_properties(tools.plan_checker PROPERTIES LABELS tools TIMEOUT 120)
