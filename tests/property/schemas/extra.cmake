# SPDX-License-Identifier: Apache-2.0
# Our reader against Python's jsonschema, and parameter counts against a formula, through a small filter.
add_executable(document_driver ${CMAKE_CURRENT_LIST_DIR}/document_driver.c)
target_link_libraries(document_driver PRIVATE ah_schemas)
