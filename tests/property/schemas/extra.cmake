# SPDX-License-Identifier: Apache-2.0
# Our reader against Python's jsonschema, and parameter counts against a formula, through a small filter.
add_executable(document_driver ${CMAKE_CURRENT_LIST_DIR}/document_driver.c)
target_link_libraries(document_driver PRIVATE ah_schemas)
foreach(script agreement parameters)
  ah_test_script(property.schemas.${script} LABELS property schemas
    COMMAND ${DEBIAN_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/${script}.py $<TARGET_FILE:document_driver>)
endforeach()
