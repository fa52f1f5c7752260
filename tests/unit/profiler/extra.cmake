# SPDX-License-Identifier: Apache-2.0
# Devices of known speed, for the tests that run whole profiles.
target_sources(unit.profiler PRIVATE ${CMAKE_CURRENT_LIST_DIR}/fake_device.c ${CMAKE_CURRENT_LIST_DIR}/profile_case.c)
