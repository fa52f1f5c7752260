/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared: finds out whether several processes, maybe on different hosts, see one folder whose files keep everybody's
 * writes. It tests this by writing, whatever the hosts' names or the kinds of file systems are.
 *
 * One process offers a file with a random token. The others look for it at the same path, read the token, and write
 * their answers into it, each at its own unaligned offset. The first process checks the answers and removes the file.
 *
 *     shared = ah_shared_offer(folder, token);                            // then send path and token to the others
 *     seen = ah_shared_answer(folder, token, rank, patience_ms);          // each of the others, which reports `seen`
 *     rc = ah_shared_check(folder, token, answered, ranks, &shared, err); // always: removes the file
 *
 * Any other failure means that the folder is not shared; that is no error, since saving does not need it.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_SHARED_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    AH_SHARED_TOKEN_MAX = 33,    /* hexadecimal digits and a NUL */
    AH_SHARED_PATIENCE_MS = 2000 /* how late a file system may show a new name */
};

/* Leftovers may have this name (leftover_internal.h). */
#define AH_SHARED_FILE ".autohete-shared.tmp"

bool ah_shared_offer(const char *folder, char ret_token[AH_SHARED_TOKEN_MAX]);
bool ah_shared_answer(const char *folder, const char *token, uint32_t rank, unsigned patience_ms);

/* Checks the answers of all ranks for which `answered` (by rank) is true. AH_E_IO: the file cannot be removed. */
int ah_shared_check(const char *folder, const char *token, const bool *answered, uint32_t ranks,
                    bool *ret_shared, struct ah_error *err);

#endif
