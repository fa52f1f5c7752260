# SPDX-License-Identifier: Apache-2.0
target_link_libraries(property.device_cpu PRIVATE ah_schedule)
