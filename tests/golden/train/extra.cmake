# SPDX-License-Identifier: Apache-2.0
target_link_libraries(golden.train PRIVATE ah_test_hooked ah_device_cpu)
# Logits, losses, gradients and weights of the golden cases, as trained, against float64 of PyTorch.
ah_test_script(golden.train.oracle LABELS golden train
  COMMAND ${DEBIAN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/tools/train_oracle.py --program $<TARGET_FILE:golden.train>)
# Examples packed by the program: its files, and what they teach against each example alone, in float64 where torch is.
set(packed ${DEBIAN_PYTHON} ${PROJECT_SOURCE_DIR}/tests/tools/packed_oracle.py --program $<TARGET_FILE:autohete>)
ah_test_script(golden.train.packed LABELS golden train COMMAND ${packed})
ah_test_script(golden.train.packed_alone LABELS golden train COMMAND ${packed} --alone)
