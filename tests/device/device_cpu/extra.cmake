# SPDX-License-Identifier: Apache-2.0
target_link_libraries(device.device_cpu PRIVATE ah_test_clock)
