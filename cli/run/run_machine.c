/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the digests of the documents that may be meant, nearest first.
 */
#include "cli/run/run_machine.h"

#include "cli/frame/cache.h"
#include "cli/frame/input.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* True if the word names a machine with the digest. Then `ret_document` holds it. */
static bool is_machine(const char *word, const char *sha256, struct ah_document *ret_document)
{
    char digest[AH_DOCUMENT_DIGEST_MAX] = "";
    struct ah_error err;
    struct ah_document document = {0};
    if (ah_input_load(&document, word, AH_DOCUMENT_MACHINE, &err))
        return false;
    if (!ah_document_digest(&document, digest, &err) && !strcmp(digest, sha256)) {
        *ret_document = document;
        return true;
    }
    ah_document_release(&document);
    return false;
}

/* Looks at a file beside the plan, whose folder has `length` bytes with its slash. */
static bool is_beside(const char *plan, int length, const char *name, const char *sha256,
                      struct ah_document *ret_document)
{
    char path[PATH_MAX];
    const int size = snprintf(path, sizeof path, "%.*s%s.json", length, plan, name);
    return size > 0 && size < (int)sizeof path && !access(path, R_OK) &&
           is_machine(path, sha256, ret_document);
}

const struct ah_machine *ah_run_machine_find(struct ah_document *ret_document, const struct ah_plan *plan,
                                             const char *path, struct ah_arena *arena)
{
    static const char *const devices[] = {"cuda", "cpu"};
    const struct ah_plan_input *machine = &plan->inputs.machine;
    const char *slash = strrchr(path, '/'), *cached;
    const int length = slash ? (int)(slash + 1 - path) : 0;
    bool found = false;
    *ret_document = (struct ah_document){0};
    for (size_t i = 0; i < sizeof devices / sizeof *devices && !found; i++)
        found = !ah_cache_path(devices[i], arena, &cached, NULL) && !access(cached, R_OK) &&
                is_machine(cached, machine->sha256, ret_document);
    found = found || is_beside(path, length, "machine", machine->sha256, ret_document) ||
            is_beside(path, length, machine->name, machine->sha256, ret_document) ||
            is_machine(machine->name, machine->sha256, ret_document);
    return found ? ret_document->body.machine : NULL;
}
