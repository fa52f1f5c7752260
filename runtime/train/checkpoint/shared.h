/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared: do several processes, each on a host of its own maybe, see one folder, and does a file of it keep what each of them
 * writes? Found out by doing it, never by names of hosts or kinds of file systems.
 *
 * One offers a file with a random token in it. Each of the others looks for it, at the same path, reads the token, and writes
 * an answer into it, at an odd place of its own. Then the first looks whether all answers are there, and removes the file.
 *
 *     shared = ah_shared_offer(folder, token);                            // tells the others path and token
 *     seen = ah_shared_answer(folder, token, rank, patience_ms);          // each of them, which tells the first
 *     rc = ah_shared_check(folder, token, answered, ranks, &shared, err); // in every case: the file goes
 *
 * Whatever else fails means that it is not shared: then nobody needs it to be.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AH_SHARED_TOKEN_MAX = 33,    /* hexadecimal digits and a NUL */
    AH_SHARED_PATIENCE_MS = 2000 /* for which a file system may be late with a name */
};

/* A name that leftovers may have (leftover_internal.h). */
#define AH_SHARED_FILE ".autohete-shared.tmp"

bool ah_shared_offer(const char *folder, char ret_token[AH_SHARED_TOKEN_MAX]);
bool ah_shared_answer(const char *folder, const char *token, uint32_t rank, unsigned patience_ms);

/* Are there the answers of all `ranks` for which `answered` (by rank) has true? AH_E_IO: the file cannot be removed. */
int ah_shared_check(const char *folder, const char *token, const bool *answered, uint32_t ranks,
                    bool *ret_shared, struct ah_error *err);

#endif
