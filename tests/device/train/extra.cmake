# SPDX-License-Identifier: Apache-2.0
target_link_libraries(device.train PRIVATE ah_test_hooked ah_device_cpu ah_planner)
ah_test_set(device.train.trainer LABELS "device;train;threads")
