# SPDX-License-Identifier: Apache-2.0
# fuzz.<target> replays the corpus with a bounded number of mutations, on any compiler. With AUTOHETE_FUZZ=ON and
# clang, fuzz_<target> is also a libFuzzer program: fuzz_document -max_len=65536 tests/fuzz/corpus/document/*
function(ah_fuzz target room)
  file(GLOB_RECURSE corpus CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${target}/*)
  list(APPEND corpus ${ARGN})
  set(source ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_${target}.c)
  add_executable(fuzz.${target} ${source} ${PROJECT_SOURCE_DIR}/tests/fuzz/driver.c)
  target_link_libraries(fuzz.${target} PRIVATE ah_${room})
  ah_test_script(fuzz.${target} LABELS fuzz ${room} COMMAND fuzz.${target} ${corpus})
  if(AUTOHETE_FUZZ)
    add_executable(fuzz_${target} ${source})
    target_compile_definitions(fuzz_${target} PRIVATE AUTOHETE_LIBFUZZER)
    target_compile_options(fuzz_${target} PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_options(fuzz_${target} PRIVATE -fsanitize=fuzzer,address,undefined)
    target_link_libraries(fuzz_${target} PRIVATE ah_${room})
    target_compile_options(ah_${room} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

file(GLOB document_samples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/golden/schemas/documents/*)
ah_fuzz(document schemas ${document_samples} ${PROJECT_SOURCE_DIR}/examples/models/gpt2-124m.json
  ${PROJECT_SOURCE_DIR}/examples/models/qwen3-0.6b.json)
ah_fuzz(plan planner)
ah_fuzz(data train_data)
ah_fuzz(safetensors model)
ah_fuzz(tokenizer model)
ah_fuzz(checkpoint train_checkpoint)
