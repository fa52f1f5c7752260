# SPDX-License-Identifier: Apache-2.0
# Logits, losses, gradients and weights of the golden cases, as trained, against float64 of PyTorch.
add_test(NAME golden.train.oracle COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/tools/train_oracle.py
  --program $<TARGET_FILE:golden.train.cases>)
set_tests_properties(golden.train.oracle PROPERTIES LABELS "golden;train" TIMEOUT 900)
add_custom_target(golden.train.oracle DEPENDS golden.train.cases)
target_link_libraries(golden.train.cases PRIVATE ah_test_hooked)
# Sanitizers slow kernels by ten: fewer plans there.
set_tests_properties(golden.train.cases PROPERTIES TIMEOUT 900)
if(AUTOHETE_SANITIZE)
  set_tests_properties(golden.train.cases PROPERTIES ENVIRONMENT AH_TRAIN_PLANS=1)
endif()
target_link_libraries(golden.train.learning PRIVATE ah_device_cpu)
target_link_libraries(golden.train.weights PRIVATE ah_device_cpu)
