# SPDX-License-Identifier: Apache-2.0
# Sanitizers slow whole plans by ten: fewer there.
if(AUTOHETE_SANITIZE)
  set_tests_properties(property.cluster.shares PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=8)
  set_tests_properties(property.cluster.programs PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=12)
  set_tests_properties(property.cluster.concert PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=8)
  set_tests_properties(property.cluster.grouping PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=40)
endif()
