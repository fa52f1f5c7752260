# SPDX-License-Identifier: Apache-2.0
target_link_libraries(property.train.exact PRIVATE ah_test_hooked ah_planner)
set_tests_properties(property.train.exact PROPERTIES LABELS "property;train;threads")
