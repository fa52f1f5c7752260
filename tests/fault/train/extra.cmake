# SPDX-License-Identifier: Apache-2.0
target_link_libraries(fault.train.trainer PRIVATE ah_device_cpu)
