# SPDX-License-Identifier: Apache-2.0
# Sanitizers slow brute force by ten: fewer instances there.
if(AUTOHETE_SANITIZE)
  set_tests_properties(property.planner.optimality PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=4)
  set_tests_properties(property.planner.remedies PROPERTIES ENVIRONMENT AH_TEST_REMEDIES=3)
  set_tests_properties(property.planner.knobs PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=2)
  set_tests_properties(property.planner.search PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=4)
endif()
# Chains of a search run side by side.
set_tests_properties(property.planner.search PROPERTIES LABELS "property;planner;threads" TIMEOUT 900)
