# SPDX-License-Identifier: Apache-2.0
# Cases of attention, what is exact, and checks that every device shares, for test_attention.c.
if(TARGET device.cuda_kernels)
  target_sources(device.cuda_kernels PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_case.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_checks.c
    ${PROJECT_SOURCE_DIR}/tests/unit/device_math/attention_exact.c)
  # The thread sanitizer makes switching among a block's threads slow and sees only what happens between blocks: it has
  # the one case that runs several at a time.
  ah_test_set(device.cuda_kernels.attention LABELS "device;cuda_kernels")
  ah_test_set(device.cuda_kernels.attention.has_the_same_bits_in_any_order LABELS "device;cuda_kernels;threads")
endif()
