# SPDX-License-Identifier: Apache-2.0
# The functions of functions.inc at each level, for test_functions.c; cases of attention, what is exact, and checks that
# every device shares, for test_attention.c.
target_sources(unit.device_math PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/functions_portable.c ${CMAKE_CURRENT_LIST_DIR}/functions_avx2.c
  ${CMAKE_CURRENT_LIST_DIR}/functions_avx512.c ${CMAKE_CURRENT_LIST_DIR}/attention_case.c
  ${CMAKE_CURRENT_LIST_DIR}/attention_checks.c ${CMAKE_CURRENT_LIST_DIR}/attention_exact.c)
