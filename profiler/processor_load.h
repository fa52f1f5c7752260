/* SPDX-License-Identifier: Apache-2.0
 *
 * Load: measures what else the processors did during a measurement.
 *
 * Takes two readings, before and after, of the kernel's processor times (/proc/stat) and of this process's own. Their
 * difference tells how much processor time the hypervisor took away ("steal") and how much other processes used. Both
 * are 0 if the kernel does not say.
 *
 *     struct ah_load before, after;
 *     ah_load_read(&before);
 *     ... measure ...
 *     ah_load_read(&after);
 *     if (ah_load_noise(&before, &after, "matmul", text, sizeof text)) ...
 */
#ifndef AH_PROFILER_PROCESSOR_LOAD_H
#define AH_PROFILER_PROCESSOR_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_load {
    double total_s; /* time of all processors, idle included */
    double busy_s;  /* user, nice, system, interrupts */
    double steal_s; /* ready to run while the hypervisor ran another machine */
    double own_s;   /* processor time of this process */
};

void ah_load_read(struct ah_load *ret_load);

/* Parses the first line of a /proc/stat whose ticks last 1/`ticks_per_s` seconds; `own_s` becomes 0. False, and all
 * zeros, if it is not one. */
bool ah_load_parse(const char *text, double ticks_per_s, struct ah_load *ret_load);

/* Return the average number of processors stolen, or used by other processes, between two readings. */
double ah_load_stolen(const struct ah_load *before, const struct ah_load *after, unsigned processors);
double ah_load_others(const struct ah_load *before, const struct ah_load *after, unsigned processors);

/* True when 0.02 of a processor or more was stolen, or others used 0.10 or more, over at least half a second
 * of `processors` processors; `ret_text` then holds a sentence that begins with `what`. */
bool ah_load_noise(const struct ah_load *before, const struct ah_load *after, unsigned processors,
                   const char *what, char *ret_text, size_t size);

/* True if sentences of `noise` say that other processes and the hypervisor took a tenth of all processors or more while
 * a part was measured. Then `ret_taken` is how many processors they took at worst. */
bool ah_load_disturbed(const char *const *sentences, size_t n, double *ret_taken, unsigned *ret_processors);

#endif
