# SPDX-License-Identifier: Apache-2.0
target_link_libraries(golden.sample PRIVATE ah_device_cpu)
