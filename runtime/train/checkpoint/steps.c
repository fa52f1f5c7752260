/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/train/checkpoint/steps_internal.h"

#include "runtime/train/checkpoint/leftover_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "step-"

enum { DIGITS_MAX = 16 /* digits of 2^53 */ };

static void print_name(uint64_t step, const char *ending, char out[AH_STEPS_NAME_MAX])
{
    snprintf(out, AH_STEPS_NAME_MAX, PREFIX "%08" PRIu64 "%s", step, ending);
}

/* Reads the number of a step. It must print as the same text: no sign, no space, no extra zeros. */
bool ah_steps_parse(const char *name, const char *ending, uint64_t *ret_step)
{
    char printed[AH_STEPS_NAME_MAX];
    const char *digits = name + strlen(PREFIX);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || strspn(digits, "0123456789") > DIGITS_MAX)
        return false;
    uint64_t step = strtoull(digits, NULL, 10);
    print_name(step, ending, printed);
    if (strcmp(printed, name) != 0)
        return false;
    *ret_step = step;
    return true;
}

int ah_steps_path(const char *folder, uint64_t step, const char *ending, char ret_path[PATH_MAX],
                  struct ah_error *err)
{
    char name[AH_STEPS_NAME_MAX];
    print_name(step, ending, name);
    return ah_stream_path(folder, name, ret_path, err);
}

static int compare_newest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

int ah_steps_list(const char *folder, struct ah_arena *arena, struct ah_steps *ret_steps,
                  struct ah_error *err)
{
    struct ah_leftover_names names;
    struct ah_steps steps = {0};
    int rc = ah_leftover_list(folder, arena, &names, err);
    if (rc)
        return rc;
    steps.items = ah_arena_array(arena, names.n + 1, sizeof *steps.items);
    steps.leftovers = ah_arena_array(arena, names.n + 1, sizeof *steps.leftovers);
    if (!steps.items || !steps.leftovers)
        return ah_error_memory(err);
    for (size_t i = 0; i < names.n; i++) {
        steps.n += ah_steps_parse(names.items[i], "", &steps.items[steps.n]);
        steps.n_leftovers +=
            ah_steps_parse(names.items[i], AH_LEFTOVER_ENDING, &steps.leftovers[steps.n_leftovers]);
    }
    qsort(steps.items, steps.n, sizeof *steps.items, compare_newest_first);
    *ret_steps = steps;
    return AH_OK;
}

static int check_step(const struct ah_document *manifest, const char *path, uint64_t step,
                      struct ah_error *err)
{
    uint64_t has = manifest->body.checkpoint->step;
    return has == step ? AH_OK
                       : ah_stream_say(err, AH_E_DOCUMENT, path,
                                       "is the checkpoint of step %" PRIu64 "; rename it back", has);
}

int ah_steps_check(const char *folder, uint64_t step, struct ah_document *ret_manifest, struct ah_error *err)
{
    char path[PATH_MAX];
    struct ah_document manifest = {0};
    int rc = ah_steps_path(folder, step, "", path, err);
    if (!rc)
        rc = ah_manifest_load(&manifest, path, err);
    if (!rc)
        rc = check_step(&manifest, path, step, err);
    if (!rc)
        rc = ah_manifest_check_files(&manifest, path, err);
    if (!rc && ret_manifest)
        *ret_manifest = manifest;
    else
        ah_document_release(&manifest);
    return rc;
}
