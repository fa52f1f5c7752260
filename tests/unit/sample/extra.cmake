# SPDX-License-Identifier: Apache-2.0
target_link_libraries(unit.sample PRIVATE ah_device_cpu)
