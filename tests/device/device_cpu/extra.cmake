# SPDX-License-Identifier: Apache-2.0
# Matrix products as older processors compute them: without AMX and bf16 instructions, and without AVX-512.
if(NOT AUTOHETE_SANITIZE MATCHES "thread")
  foreach(isa IN ITEMS AVX512_CORE AVX2)
    string(TOLOWER ${isa} suffix)
    add_test(NAME device.device_cpu.matmul_${suffix} COMMAND device.device_cpu.matmul)
    set_tests_properties(device.device_cpu.matmul_${suffix} PROPERTIES ENVIRONMENT ONEDNN_MAX_CPU_ISA=${isa}
      TIMEOUT 300 LABELS "device;device_cpu")
  endforeach()
endif()
