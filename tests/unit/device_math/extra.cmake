# SPDX-License-Identifier: Apache-2.0
# The functions of functions.inc at each level, for test_functions.c.
foreach(level IN ITEMS portable avx2 avx512)
  target_sources(unit.device_math.functions PRIVATE ${CMAKE_CURRENT_LIST_DIR}/functions_${level}.c)
endforeach()
# Cases of attention, what is exact, and checks that every device shares, for test_attention.c.
target_sources(unit.device_math.attention PRIVATE ${CMAKE_CURRENT_LIST_DIR}/attention_case.c
  ${CMAKE_CURRENT_LIST_DIR}/attention_checks.c
  ${CMAKE_CURRENT_LIST_DIR}/attention_exact.c)
