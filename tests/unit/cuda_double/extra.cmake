# SPDX-License-Identifier: Apache-2.0
# Kernels that tests of the double run, compiled as the plugin's are.
if(AUTOHETE_CUDA_DOUBLE)
  add_library(ah_test_kernels STATIC ${CMAKE_CURRENT_LIST_DIR}/kernels.cu)
  target_link_libraries(ah_test_kernels PUBLIC ah_cuda_double)
  ah_cuda_sources(ah_test_kernels)
  target_link_libraries(unit.cuda_double PRIVATE ah_test_kernels)
endif()
