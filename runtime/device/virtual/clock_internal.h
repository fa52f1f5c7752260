/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the clock's files: the check of a graph (clock_check.c) that precedes its run (clock.c).
 */
#ifndef AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H
#define AH_RUNTIME_DEVICE_VIRTUAL_CLOCK_INTERNAL_H

#include "runtime/device/virtual/clock.h"

/* AH_E_USAGE names the first number out of range. Orders of frozen lanes are not looked at. */
int ah_clock_check(const struct ah_clock_graph *graph, struct ah_error *err);

#endif
