# SPDX-License-Identifier: Apache-2.0
# Our reader against Python's jsonschema, and parameter counts against a formula, through a small filter.
add_executable(document_driver ${CMAKE_CURRENT_LIST_DIR}/document_driver.c)
target_link_libraries(document_driver PRIVATE ah_schemas)
find_program(DEBIAN_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
if(AUTOHETE_SANITIZE)
  set(agreement_arguments --changes 2)
endif()
foreach(script agreement parameters)
  add_test(NAME property.schemas.${script}
    COMMAND ${DEBIAN_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/${script}.py $<TARGET_FILE:document_driver>
      ${${script}_arguments}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(property.schemas.${script} PROPERTIES TIMEOUT 900 LABELS "property;schemas")
endforeach()
