# SPDX-License-Identifier: Apache-2.0
target_link_options(fault.model PRIVATE
  LINKER:--wrap=pread,--wrap=pwrite,--wrap=fsync,--wrap=close,--wrap=fallocate)
