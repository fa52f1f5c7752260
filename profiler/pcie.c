/* SPDX-License-Identifier: Apache-2.0
 *
 * Source: Linux, Documentation/ABI/testing/sysfs-bus-pci; speeds of the PCI Express base specification, in tenths of
 * gigatransfers a second.
 */
#include "profiler/pcie.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static const unsigned speeds[] = {25, 50, 80, 160, 320, 640, 1280}; /* by generation, starting with 1 */

/* Returns the number at the beginning of a file; 0 if there is none. */
static double read_number(const char *folder, const char *name)
{
    char path[PATH_MAX];
    double number = 0;
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &number) != 1 || !(number > 0) || number > 1e6)
        number = 0;
    (void)fclose(file);
    return number;
}

static uint64_t generation_of(double gigatransfers)
{
    for (uint64_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        if (lround(10 * gigatransfers) == (long)speeds[i])
            return i + 1;
    return 0;
}

/* Returns the lower of both values. If the port's is unknown (0), returns the device's. */
static uint64_t lower_of(uint64_t device, uint64_t port)
{
    return port && port < device ? port : device;
}

bool ah_pcie_read(const char *folder, struct ah_machine_pcie *ret_pcie)
{
    struct ah_machine_pcie pcie = {
        .generation = generation_of(read_number(folder, "current_link_speed")),
        .width = (uint64_t)read_number(folder, "current_link_width"),
        .max_generation = lower_of(generation_of(read_number(folder, "max_link_speed")),
                                   generation_of(read_number(folder, "../max_link_speed"))),
        .max_width = lower_of((uint64_t)read_number(folder, "max_link_width"),
                              (uint64_t)read_number(folder, "../max_link_width")),
    };
    if (!pcie.generation || !pcie.width || !pcie.max_generation || !pcie.max_width)
        return false;
    *ret_pcie = pcie;
    return true;
}
