# SPDX-License-Identifier: Apache-2.0
target_link_options(fault.base.threads PRIVATE LINKER:--wrap=pthread_create)
target_link_options(fault.base.file PRIVATE LINKER:--wrap=fsync)
