# SPDX-License-Identifier: Apache-2.0
target_link_libraries(unit.train PRIVATE ah_comm_loop)
