/* SPDX-License-Identifier: Apache-2.0
 *
 * Pcie: reads the state of a device's PCIe link, as reported by Linux.
 */
#ifndef AH_PROFILER_PCIE_H
#define AH_PROFILER_PCIE_H

#include "schemas/machine.h"

#include <stdbool.h>

/* Reads the present state of the link of the device in `folder` ("/sys/bus/pci/devices/0000:17:00.0"), and the best
 * state that the device and the port above it support. Returns false if these are unknown. */
bool ah_pcie_read(const char *folder, struct ah_machine_pcie *ret_pcie);

#endif
