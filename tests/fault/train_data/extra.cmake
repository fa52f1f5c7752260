# SPDX-License-Identifier: Apache-2.0
target_link_options(fault.train_data PRIVATE
  LINKER:--wrap=open,--wrap=stat,--wrap=fstat,--wrap=pread,--wrap=opendir)
