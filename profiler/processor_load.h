/* SPDX-License-Identifier: Apache-2.0
 *
 * Load: measures other work of the processors during a measurement.
 *
 * It reads the kernel's processor times (/proc/stat) and this process's own, before and after the measurement. The
 * difference of the readings shows how much processor time the hypervisor took away ("steal"), and how much other
 * processes used. Times that the kernel does not report count as 0.
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
    double total_s; /* time of all processors, with idle time */
    double busy_s;  /* user, nice, system and interrupt time */
    double steal_s; /* time in which the hypervisor ran another machine although this one had work */
    double own_s;   /* processor time of this process */
};

void ah_load_read(struct ah_load *ret_load);

/* Parses the first line of a /proc/stat whose ticks last 1/`ticks_per_s` seconds; sets `own_s` to 0. For any other
 * text, returns false and sets all fields to 0. */
bool ah_load_parse(const char *text, double ticks_per_s, struct ah_load *ret_load);

/* Return the average number of processors taken by the hypervisor, or used by other processes, between two readings. */
double ah_load_stolen(const struct ah_load *before, const struct ah_load *after, unsigned processors);
double ah_load_others(const struct ah_load *before, const struct ah_load *after, unsigned processors);

/* True if the hypervisor took 0.02 of a processor or more, or other processes used 0.10 or more, over at least half a
 * second of `processors` processors. Then `ret_text` is a sentence that begins with `what`. */
bool ah_load_noise(const struct ah_load *before, const struct ah_load *after, unsigned processors,
                   const char *what, char *ret_text, size_t size);

/* True if, by the sentences of `noise`, other processes and the hypervisor took a tenth of all processors or more
 * during a part. Then `ret_taken` is the largest number of processors they took. */
bool ah_load_disturbed(const char *const *sentences, size_t n, double *ret_taken, unsigned *ret_processors);

#endif
