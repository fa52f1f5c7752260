# SPDX-License-Identifier: Apache-2.0
target_sources(unit.comm_loop PRIVATE ${CMAKE_CURRENT_LIST_DIR}/world.c)
