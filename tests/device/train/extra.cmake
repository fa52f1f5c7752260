# SPDX-License-Identifier: Apache-2.0
target_link_libraries(device.train.trainer PRIVATE ah_device_cpu)
target_link_libraries(device.train.persist PRIVATE ah_device_cpu)
target_link_libraries(device.train.tally PRIVATE ah_device_cpu)
target_link_libraries(device.train.policies PRIVATE ah_device_cpu ah_planner)
set_tests_properties(device.train.trainer device.train.policies PROPERTIES TIMEOUT 900)
set_tests_properties(device.train.trainer PROPERTIES LABELS "device;train;threads")
