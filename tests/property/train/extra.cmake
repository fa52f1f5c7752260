# SPDX-License-Identifier: Apache-2.0
target_link_libraries(property.train.exact PRIVATE ah_test_hooked ah_planner)
target_sources(property.train.fits PRIVATE ${CMAKE_CURRENT_LIST_DIR}/poison.c)
target_link_libraries(property.train.fits PRIVATE ah_test_hooked)
set_tests_properties(property.train.exact property.train.fits PROPERTIES LABELS "property;train;threads")
# Sanitizers slow plans by ten: fewer there.
if(AUTOHETE_SANITIZE)
  set_tests_properties(property.train.exact PROPERTIES ENVIRONMENT AH_EXACT_PLANS=2)
  set_tests_properties(property.train.fits PROPERTIES ENVIRONMENT AH_FITS_PLANS=3)
endif()
