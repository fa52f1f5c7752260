/* SPDX-License-Identifier: Apache-2.0
 *
 * Units: reading and printing sizes, rates and times as people write them.
 *
 * Binary prefixes (KiB, MiB, GiB, TiB) are powers of 1024, decimal ones (kB, KB, MB, GB, TB) of 1000. A bare number is
 * bytes. "12G" or "12g" is refused with a message that offers both spellings, because some people mean 1000s and some
 * 1024s. One space between number and unit is allowed. Numbers may have a fraction.
 */
#ifndef AH_BASE_UNITS_H
#define AH_BASE_UNITS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { AH_UNITS_TEXT_MAX = 32 };

/* Reads "12GiB", "1.5 GB", "4096" as bytes (rounded to nearest). AH_E_USAGE names the text and what is accepted. */
int ah_units_parse_bytes(const char *text, uint64_t *ret_bytes, struct ah_error *err);

/* Reads "6GB/s", "22 GiB/s" as bytes per second. */
int ah_units_parse_rate(const char *text, double *ret_bytes_per_s, struct ah_error *err);

/* Reads "250ms", "1.5 s", "90us", "2min", "1h" as microseconds; the unit is required. */
int ah_units_parse_time(const char *text, double *ret_us, struct ah_error *err);

/* Reads a count with SI suffix: "124M", "1.5k", "2B"/"2G", "42" -> 42. */
int ah_units_parse_count(const char *text, uint64_t *ret_count, struct ah_error *err);

/* Print for people, into `out` (AH_UNITS_TEXT_MAX bytes); each returns `out`. bytes: "11.7 GiB"; rate: "22.4 GB/s";
 * flops: "233 GFLOP/s"; count: "124.4 M"; time in us: "1.25 ms". */
const char *ah_units_print_bytes(char out[AH_UNITS_TEXT_MAX], uint64_t bytes);
const char *ah_units_print_rate(char out[AH_UNITS_TEXT_MAX], double bytes_per_s);
const char *ah_units_print_flops(char out[AH_UNITS_TEXT_MAX], double flops_per_s);
const char *ah_units_print_count(char out[AH_UNITS_TEXT_MAX], double count);
const char *ah_units_print_time(char out[AH_UNITS_TEXT_MAX], double us);

#endif
