# SPDX-License-Identifier: Apache-2.0
# The functions of functions.inc at each level, for test_functions.c.
foreach(level IN ITEMS portable avx2 avx512)
  target_sources(unit.device_math.functions PRIVATE ${CMAKE_CURRENT_LIST_DIR}/functions_${level}.c)
endforeach()
# Attention in double, for test_attention.c.
target_sources(unit.device_math.attention PRIVATE ${CMAKE_CURRENT_LIST_DIR}/attention_exact.c)
