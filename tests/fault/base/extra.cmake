# SPDX-License-Identifier: Apache-2.0
target_link_options(fault.base PRIVATE LINKER:--wrap=pthread_create,--wrap=fsync)
