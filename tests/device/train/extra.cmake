# SPDX-License-Identifier: Apache-2.0
target_link_libraries(device.train.trainer PRIVATE ah_device_cpu)
target_link_libraries(device.train.policies PRIVATE ah_device_cpu ah_planner)
