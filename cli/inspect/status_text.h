/* SPDX-License-Identifier: Apache-2.0
 *
 * Status text: a status for people: the run's progress, the status's age, ranks that are behind, a line for each rank.
 */
#ifndef AH_CLI_INSPECT_STATUS_TEXT_H
#define AH_CLI_INSPECT_STATUS_TEXT_H

#include "cli/frame/cli.h"
#include "schemas/status.h"

/* the age from which on a status may mean that the run has died */
#define AH_STATUS_STALE_US UINT64_C(10000000)

/* Prints a status. `now_us`: the time on the clock of `updated_us`; 0: ages are left out. */
void ah_status_put(struct ah_cli *cli, const struct ah_status *status, uint64_t now_us);

/* A rank that is silent or delays others. Sorted: silent ranks first, then by more `others`, then by lower rank. */
struct ah_status_behind {
    uint32_t rank;
    uint32_t others;  /* number of ranks that wait for this rank, directly or through other ranks */
    double us;        /* longest of their waits so far */
    bool in_circle;   /* this rank itself waits for one of those ranks */
    double silent_us; /* time since the rank's last answer; 0: it answers */
};

/* Finds the ranks that are behind, in `arena`; NULL and 0: there are none. AH_E_MEMORY. */
int ah_status_find_behind(const struct ah_status *status, struct ah_arena *arena,
                          struct ah_status_behind **ret_behind, size_t *ret_n, struct ah_error *err);

/* Prints an age, "under 1 s", "12 s", "2 min", "5 h" or "3 days", and returns `out`. */
enum { AH_STATUS_AGE_MAX = 32 };
const char *ah_status_print_age(char out[AH_STATUS_AGE_MAX], double us);

#endif
