/* SPDX-License-Identifier: Apache-2.0
 *
 * Option values: what a person gave for an option, if anything. cli/frame/options.h reads them from a command line.
 *
 *     uint64_t steps = options->steps.given ? options->steps.value : 100;
 */
#ifndef AH_BASE_OPTION_VALUE_H
#define AH_BASE_OPTION_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number. `given` distinguishes 0 from no value; `word` is one of the option's words, given instead of a number. */
struct ah_option_integer {
    bool given;
    const char *word;
    uint64_t value;
};

struct ah_option_real {
    bool given;
    const char *word;
    double value;
};

struct ah_option_list {
    const char **items; /* borrowed */
    size_t n;
};

#endif
