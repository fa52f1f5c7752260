# SPDX-License-Identifier: Apache-2.0
# Cases of attention, what is exact, and checks that every device shares, for test_attention.c.
if(TARGET device.cuda_kernels.attention)
  target_sources(device.cuda_kernels.attention PRIVATE
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_case.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_checks.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_exact.c)
endif()
