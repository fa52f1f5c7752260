# SPDX-License-Identifier: Apache-2.0
# Programs that tests use are tested themselves.
add_test(NAME tools.plan_checker COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_plan_checker.py)
set_tests_properties(tools.plan_checker PROPERTIES LABELS tools TIMEOUT 900)
add_test(NAME tools.oracle COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_oracle.py)
set_tests_properties(tools.oracle PROPERTIES LABELS tools TIMEOUT 900)
# bench/predictions where the machine is never quiet.
add_test(NAME tools.predictions COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_predictions.py)
set_tests_properties(tools.predictions PROPERTIES LABELS tools TIMEOUT 300)
# Plans of random models, each checked by the rules: none of the scheduler's own code decides whether it is right.
set(random_plans 40)
if(AUTOHETE_SANITIZE)
  set(random_plans 8)
endif()
add_test(NAME property.schedule.plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/random_plans.py
  --program $<TARGET_FILE:autohete> --plans ${random_plans})
set_tests_properties(property.schedule.plans PROPERTIES LABELS "property;schedule" TIMEOUT 900)
add_custom_target(property.schedule.plans DEPENDS autohete) # what scripts/test-mutants builds
set(forged_plans 6)
if(AUTOHETE_SANITIZE)
  set(forged_plans 0) # those of examples
endif()
# Fields of plans forged, one at a time: check refuses all but those that nobody can know.
add_test(NAME property.schedule.forgeries COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/forged_plans.py
  --program $<TARGET_FILE:autohete> --plans ${forged_plans})
set_tests_properties(property.schedule.forgeries PROPERTIES LABELS "property;schedule" TIMEOUT 900)
add_custom_target(property.schedule.forgeries DEPENDS autohete)
# The same of cluster plans and what they were made from.
set(forged_cluster_plans --cases 3 --each 1 --most 60)
if(AUTOHETE_SANITIZE)
  set(forged_cluster_plans --cases 1 --each 1 --most 30)
endif()
add_test(NAME property.cluster.forgeries COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/forged_cluster_plans.py
  --program $<TARGET_FILE:autohete> ${forged_cluster_plans})
set_tests_properties(property.cluster.forgeries PROPERTIES LABELS "property;cluster" TIMEOUT 900)
add_custom_target(property.cluster.forgeries DEPENDS autohete)
# Whole runs killed at random moments and gone on with, under other plans too (AH_TEST_KILLS: how many times).
add_test(NAME property.train.killed_runs COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/killed_runs.py
  --program $<TARGET_FILE:autohete>)
set_tests_properties(property.train.killed_runs PROPERTIES LABELS "property;train" TIMEOUT 900)
add_custom_target(property.train.killed_runs DEPENDS autohete)
# Plans edited at random and run: refused, or the same bits (500 edits see every kind of field: AH_TEST_SEED, --edits).
set(edited_plans 120)
if(AUTOHETE_SANITIZE)
  set(edited_plans 15)
endif()
add_test(NAME property.train.edited_plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/edited_plans.py
  --program $<TARGET_FILE:autohete> --edits ${edited_plans})
set_tests_properties(property.train.edited_plans PROPERTIES LABELS "property;train" TIMEOUT 900)
add_custom_target(property.train.edited_plans DEPENDS autohete)
# Runs disturbed from outside: signals, damaged checkpoints, data that change, a terminal.
add_test(NAME cli.disturbed_runs COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/disturbed_runs.py
  --program $<TARGET_FILE:autohete>)
set_tests_properties(cli.disturbed_runs PROPERTIES LABELS "cli;train" TIMEOUT 900)
add_custom_target(cli.disturbed_runs DEPENDS autohete)
# The reproductions in their quick form: optimal is never slower than the paper's plans, no baseline is faster, and plans
# without a technique are not faster, but for what quick searches miss: up to 9 % (default ones: up to 7 %). Sanitizers
# see the shorter one: it plans with the same code.
set(reproductions autohete-paper clusters)
if(NOT AUTOHETE_SANITIZE)
  list(APPEND reproductions open-questions recovery)
endif()
foreach(reproduction IN LISTS reproductions)
  add_test(NAME tools.${reproduction} COMMAND /usr/bin/python3
    ${PROJECT_SOURCE_DIR}/examples/reproduce/${reproduction}/run --autohete $<TARGET_FILE:autohete>
    --quick --effort quick --check --tolerance 0.12)
  set_tests_properties(tools.${reproduction} PROPERTIES LABELS "tools;planner" TIMEOUT 900)
  add_custom_target(tools.${reproduction} DEPENDS autohete)
endforeach()
# Weights of every family from and into safetensors, against a writer, a reader and names of the test's own.
add_executable(weights_round_trip ${CMAKE_CURRENT_LIST_DIR}/weights_round_trip.c)
target_link_libraries(weights_round_trip PRIVATE ah_model)
add_test(NAME tools.weights COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/weights_oracle.py
  --program $<TARGET_FILE:weights_round_trip>)
set_tests_properties(tools.weights PROPERTIES LABELS "tools;model" TIMEOUT 900)
add_custom_target(tools.weights DEPENDS weights_round_trip) # what scripts/test-mutants builds
# The same of checkpoints that are there: a golden case of each family, one of several files.
set(checkpoints gpt2 llama-linear mistral-window qwen2 qwen3)
list(TRANSFORM checkpoints PREPEND ${PROJECT_SOURCE_DIR}/tests/golden/train/)
add_test(NAME tools.weights_golden COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/weights_oracle.py
  --program $<TARGET_FILE:weights_round_trip> ${checkpoints})
set_tests_properties(tools.weights_golden PROPERTIES LABELS "tools;model" TIMEOUT 900)
# scripts/tokenize: with bytes everywhere, with a tokenizer where its library is installed.
add_test(NAME tools.tokenize COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_tokenize.py)
add_test(NAME tools.tokenize_library COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/test_tokenize.py library)
set_tests_properties(tools.tokenize tools.tokenize_library PROPERTIES SKIP_RETURN_CODE 77 LABELS tools TIMEOUT 900)
# The proof on a GPU: what it does beside its parts; both halves, on the plugin's double.
add_test(NAME tools.gpu_parts COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/gpu_parts.py)
set_tests_properties(tools.gpu_parts PROPERTIES LABELS tools TIMEOUT 300)
add_custom_target(tools.gpu_parts) # what scripts/test-mutants builds
if(AUTOHETE_CUDA_DOUBLE AND AUTOHETE_BENCH AND NOT AUTOHETE_SANITIZE)
  set(code)
  if(TARGET autohete_cuda_ptx)
    get_target_property(folder autohete_cuda_ptx AUTOHETE_FOLDER)
    set(code --code ${folder})
  endif()
  add_test(NAME tools.gpu_check COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/gpu_check.py
    --check ${PROJECT_SOURCE_DIR}/scripts/gpu-check --build ${PROJECT_BINARY_DIR} --plugins $<TARGET_FILE_DIR:ah_cuda>
    ${code})
  set_tests_properties(tools.gpu_check PROPERTIES LABELS "tools;cuda" TIMEOUT 900)
  # What its first minutes leave when something fails, one of each kind; scripts/test-long tries all.
  add_test(NAME tools.gpu_failures COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/gpu_failures.py
    --check ${PROJECT_SOURCE_DIR}/scripts/gpu-check --build ${PROJECT_BINARY_DIR} --plugins $<TARGET_FILE_DIR:ah_cuda>)
  set_tests_properties(tools.gpu_failures PROPERTIES LABELS "tools;cuda" TIMEOUT 900)
  add_custom_target(tools.gpu_failures DEPENDS autohete ah_cuda bench_contact bench_kernels) # what scripts/test-mutants builds
endif()
# The archive for users, of what this folder holds.
if(NOT AUTOHETE_SANITIZE)
  add_test(NAME tools.release COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/release.py
    --release ${PROJECT_SOURCE_DIR}/scripts/release --build ${PROJECT_BINARY_DIR}
    "$<$<TARGET_EXISTS:autohete_cuda>:--plugin>" COMMAND_EXPAND_LISTS)
  set_tests_properties(tools.release PROPERTIES LABELS tools TIMEOUT 900)
endif()
# Algorithms of products, from a machine's document to the device.
if(AUTOHETE_CUDA_DOUBLE)
  add_test(NAME tools.algorithms_in_plans COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/algorithms_in_plans.py
    --program $<TARGET_FILE:autohete> --plugins $<TARGET_FILE_DIR:ah_cuda>)
  set_tests_properties(tools.algorithms_in_plans PROPERTIES LABELS "tools;cuda" TIMEOUT 900)
endif()
