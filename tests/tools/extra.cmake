# SPDX-License-Identifier: Apache-2.0
# Programs that tests use are tested themselves; plans and runs of the program, from outside.
set(tools ${CMAKE_CURRENT_LIST_DIR})
set(program --program $<TARGET_FILE:autohete>)
# bench/predictions where the machine is never quiet.
foreach(tool plan_checker oracle predictions)
  ah_test_script(tools.${tool} LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/test_${tool}.py)
endforeach()
# Plans of random models, each checked by the rules: none of the scheduler's own code decides whether it is right.
ah_test_script(property.schedule.random_plans LABELS property schedule
  COMMAND ${DEBIAN_PYTHON} ${tools}/random_plans.py ${program})
# Fields of plans forged, one at a time: check refuses all but those that nobody can know.
ah_test_script(property.schedule.forgeries LABELS property schedule
  COMMAND ${DEBIAN_PYTHON} ${tools}/forged_plans.py ${program})
# The same of cluster plans and what they were made from.
ah_test_script(property.cluster.forgeries LABELS property cluster
  COMMAND ${DEBIAN_PYTHON} ${tools}/forged_cluster_plans.py ${program})
# Whole runs killed in and between saves and at random moments, and gone on with, under other plans too.
add_library(stop_after MODULE ${tools}/stop_after.c)
ah_test_script(property.train.killed_runs LABELS property train
  COMMAND ${DEBIAN_PYTHON} ${tools}/killed_runs.py ${program} --preload $<TARGET_FILE:stop_after>)
# Plans edited at random and run: refused, or the same bits.
ah_test_script(property.train.edited_plans LABELS property train
  COMMAND ${DEBIAN_PYTHON} ${tools}/edited_plans.py ${program})
# Runs disturbed from outside: signals, damaged checkpoints, data that change, a terminal.
ah_test_script(cli.disturbed_runs LABELS cli train COMMAND ${DEBIAN_PYTHON} ${tools}/disturbed_runs.py ${program})
# What a save takes of the host.
if(NOT AUTOHETE_SANITIZE)
  ah_test_script(cli.save_memory LABELS cli train COMMAND ${DEBIAN_PYTHON} ${tools}/save_memory.py ${program})
endif()
# Disks that are too small for checkpoints.
add_library(full_disk MODULE ${tools}/full_disk.c)
ah_test_script(cli.full_disk LABELS cli train
  COMMAND ${DEBIAN_PYTHON} ${tools}/full_disk.py ${program} --preload $<TARGET_FILE:full_disk>)
# The reproductions in their quick form: optimal is never slower than the paper's plans, no baseline is faster, and plans
# without a technique are not faster, but for what quick searches miss: up to 9 % (default ones: up to 7 %). Sanitizers
# see the shorter ones: they plan with the same code.
set(reproductions autohete-paper clusters)
if(NOT AUTOHETE_SANITIZE)
  list(APPEND reproductions open-questions recovery)
endif()
foreach(reproduction IN LISTS reproductions)
  ah_test_script(tools.${reproduction} LABELS tools planner COMMAND ${DEBIAN_PYTHON}
    ${PROJECT_SOURCE_DIR}/examples/reproduce/${reproduction}/run --autohete $<TARGET_FILE:autohete>
    --quick --effort quick --check --tolerance 0.12)
endforeach()
# The longest: hundreds of plans by code that other tests see.
ah_test_set(tools.open-questions LABELS "tools;planner;long")
# Random config.json files against transformers, where it is installed.
ah_test_script(tools.config_keys LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/config_keys.py ${program})
# Weights of every family from and into safetensors, against a writer, a reader and names of the test's own; and of
# checkpoints that are there: a golden case of each family, one of several files.
add_executable(weights_round_trip ${tools}/weights_round_trip.c)
target_link_libraries(weights_round_trip PRIVATE ah_model)
set(checkpoints gpt2 llama-linear mistral-window qwen2 qwen3)
list(TRANSFORM checkpoints PREPEND ${PROJECT_SOURCE_DIR}/tests/golden/train/)
set(weights ${DEBIAN_PYTHON} ${tools}/weights_oracle.py --program $<TARGET_FILE:weights_round_trip>)
ah_test_script(tools.weights LABELS tools model COMMAND ${weights})
ah_test_script(tools.weights_golden LABELS tools model COMMAND ${weights} ${checkpoints})
# scripts/tokenize: with bytes everywhere, with a tokenizer where its library is installed.
ah_test_script(tools.tokenize LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/test_tokenize.py)
ah_test_script(tools.tokenize_library LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/test_tokenize.py library)
# The proof on a GPU: what it does beside its parts; both halves, on the plugin's double.
ah_test_script(tools.gpu_parts LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/gpu_parts.py)
if(AUTOHETE_CUDA_DOUBLE AND AUTOHETE_BENCH AND NOT AUTOHETE_SANITIZE)
  set(code)
  if(TARGET autohete_cuda_ptx)
    get_target_property(folder autohete_cuda_ptx AUTOHETE_FOLDER)
    set(code --code ${folder})
  endif()
  set(gpu_check --check ${PROJECT_SOURCE_DIR}/scripts/gpu-check --build ${PROJECT_BINARY_DIR}
    --plugins $<TARGET_FILE_DIR:ah_cuda>)
  ah_test_script(tools.gpu_check LABELS tools cuda COMMAND ${DEBIAN_PYTHON} ${tools}/gpu_check.py ${gpu_check} ${code})
  # What its first minutes leave when something fails, one of each kind; scripts/test-long tries all.
  ah_test_script(tools.gpu_failures LABELS tools cuda COMMAND ${DEBIAN_PYTHON} ${tools}/gpu_failures.py ${gpu_check})
endif()
# The archive for users, of what this folder holds.
if(NOT AUTOHETE_SANITIZE)
  ah_test_script(tools.release LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/release.py
    --release ${PROJECT_SOURCE_DIR}/scripts/release --build ${PROJECT_BINARY_DIR}
    "$<$<TARGET_EXISTS:autohete_cuda>:--plugin>")
endif()
# Examples in Python: the notebook's cells without jupyter, the bridge to W&B with a module that records its calls.
if(NOT AUTOHETE_SANITIZE)
  ah_test_script(tools.notebook LABELS tools train COMMAND ${DEBIAN_PYTHON} ${tools}/notebook.py ${program})
endif()
ah_test_script(tools.wandb_bridge LABELS tools COMMAND ${DEBIAN_PYTHON} ${tools}/wandb_bridge.py ${program})
# Algorithms of products, from a machine's document to the device.
if(AUTOHETE_CUDA_DOUBLE)
  ah_test_script(tools.algorithms_in_plans LABELS tools cuda COMMAND ${DEBIAN_PYTHON} ${tools}/algorithms_in_plans.py
    ${program} --plugins $<TARGET_FILE_DIR:ah_cuda>)
endif()
