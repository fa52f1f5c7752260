# SPDX-License-Identifier: Apache-2.0
# Operands in memory, laid out, filled, run and compared: what the tests of ops in this folder share.
target_sources(device.device_math PRIVATE ${CMAKE_CURRENT_LIST_DIR}/op_case.c ${CMAKE_CURRENT_LIST_DIR}/op_ways.c)
