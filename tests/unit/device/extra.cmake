# SPDX-License-Identifier: Apache-2.0
target_link_libraries(unit.device PRIVATE ah_test_clock)
# Plugins that are wrong in one way each, for test_plugin.c.
set(plugin_folder ${CMAKE_CURRENT_BINARY_DIR}/plugins)
foreach(name IN ITEMS good other_abi other_layout no_symbol no_driver)
  string(TOUPPER FAKE_${name} definition)
  add_library(fake_plugin_${name} MODULE ${CMAKE_CURRENT_LIST_DIR}/fake_plugin.c)
  target_include_directories(fake_plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(fake_plugin_${name} PRIVATE ${definition})
  set_target_properties(fake_plugin_${name} PROPERTIES OUTPUT_NAME autohete_${name} LIBRARY_OUTPUT_DIRECTORY ${plugin_folder})
  add_dependencies(unit.device fake_plugin_${name})
endforeach()
file(WRITE ${plugin_folder}/libautohete_garbage.so "no shared object\n")
ah_test_set(unit.device.plugin ENVIRONMENT AUTOHETE_PLUGIN_DIR=${plugin_folder})
