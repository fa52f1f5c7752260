# SPDX-License-Identifier: Apache-2.0
# Sanitizers slow whole plans by ten: fewer there.
if(AUTOHETE_SANITIZE)
  set_tests_properties(property.recovery.hosts PROPERTIES ENVIRONMENT AH_TEST_INSTANCES=3)
endif()
