# SPDX-License-Identifier: Apache-2.0
target_link_libraries(fault.sample PRIVATE ah_device_cpu)
