# SPDX-License-Identifier: Apache-2.0
# The calls of tests/support/calls.h.
target_link_options(property.train_checkpoint PRIVATE
  LINKER:--wrap=fsync,--wrap=mkdir,--wrap=rename,--wrap=unlink,--wrap=rmdir,--wrap=fallocate
  LINKER:--wrap=close,--wrap=open,--wrap=opendir,--wrap=pwrite,--wrap=write,--wrap=pread)
