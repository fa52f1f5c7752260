/* SPDX-License-Identifier: Apache-2.0
 *
 * Pcie: a device's PCIe link, as Linux reports it.
 */
#ifndef AH_PROFILER_PCIE_H
#define AH_PROFILER_PCIE_H

#include "schemas/machine.h"

#include <stdbool.h>

/* Reads the link's present state for the device in `folder` ("/sys/bus/pci/devices/0000:17:00.0"), and the most that
 * the device and the port above it can do. False if that is not known. */
bool ah_pcie_read(const char *folder, struct ah_machine_pcie *ret_pcie);

#endif
