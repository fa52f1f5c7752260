/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared: finds out whether several processes, possibly on different hosts, see the same folder, and whether its files
 * keep what each of them writes. It tests by writing; names of hosts and kinds of file systems do not matter.
 *
 * One process offers a file with a random token. The other processes look for the file at the same path, read the
 * token, and write their answers into the file, each at its own unaligned offset. The first process checks the answers
 * and removes the file.
 *
 *     shared = ah_shared_offer(folder, token);                            // then send path and token to the others
 *     seen = ah_shared_answer(folder, token, rank, patience_ms);          // each of the others, which reports `seen`
 *     rc = ah_shared_check(folder, token, answered, ranks, &shared, err); // always: removes the file
 *
 * After any other failure the folder counts as not shared, which is no error.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AH_SHARED_TOKEN_MAX = 33,    /* hexadecimal digits and a NUL */
    AH_SHARED_PATIENCE_MS = 2000 /* how long after its creation a file system may first show a name */
};

/* The name is one of those that leftovers may have (leftover_internal.h). */
#define AH_SHARED_FILE ".autohete-shared.tmp"

bool ah_shared_offer(const char *folder, char ret_token[AH_SHARED_TOKEN_MAX]);
bool ah_shared_answer(const char *folder, const char *token, uint32_t rank, unsigned patience_ms);

/* Checks the answers of the ranks for which `answered` (by rank) is true. AH_E_IO: the file cannot be removed. */
int ah_shared_check(const char *folder, const char *token, const bool *answered, uint32_t ranks,
                    bool *ret_shared, struct ah_error *err);

#endif
