# SPDX-License-Identifier: Apache-2.0
target_link_libraries(property.cluster PRIVATE ah_train)
