/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding: the newest, or an error. An older one is never taken in its place, since a run that goes on from it would
 * lose steps that somebody believes saved; the sentence names it instead.
 */
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/checkpoint/steps_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Adds to `err` which checkpoint of `folder` below `step` is whole; nothing where none is. Returns `rc`. */
static int add_older(const char *folder, uint64_t step, int rc, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    char path[PATH_MAX], shown[AH_DOCUMENT_NAME_MAX];
    bool found = false;
    if (err && !ah_steps_list(folder, &arena, &steps, NULL))
        for (size_t i = 0; i < steps.n && !found; i++)
            found = steps.items[i] < step && !ah_steps_check(folder, steps.items[i], NULL, NULL) &&
                    !ah_steps_path(folder, steps.items[i], "", path, NULL);
    if (found) {
        char text[AH_ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s", err->text);
        ah_error_set(err, rc, "%s; the newest before it is '%s'", text, ah_document_short_name(path, shown));
    }
    ah_arena_release(&arena);
    return rc;
}

static int find_newest(const char *folder, char *ret_path, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    int rc = ah_steps_list(folder, &arena, &steps, err);
    ret_path[0] = '\0';
    if (!rc && steps.n) {
        rc = ah_steps_check(folder, steps.items[0], NULL, err);
        if (!rc)
            rc = ah_steps_path(folder, steps.items[0], "", ret_path, err);
        else if (rc != AH_E_MEMORY)
            add_older(folder, steps.items[0], rc, err);
    }
    ah_arena_release(&arena);
    return rc;
}

int ah_checkpoints_find(const char *path, char *ret_path, struct ah_error *err)
{
    char manifest[PATH_MAX];
    struct stat about;
    int rc = ah_stream_path(path, AH_CHECKPOINT_MANIFEST, manifest, err);
    if (rc)
        return rc;
    if (stat(path, &about))
        return errno == ENOENT
                   ? ah_stream_say(err, AH_E_IO, path, "does not exist; name a folder of checkpoints, or one")
                   : ah_stream_fail(err, path, "read");
    if (!S_ISDIR(about.st_mode))
        return ah_stream_say(err, AH_E_IO, path, "is no folder; name a folder of checkpoints, or one");
    if (lstat(manifest, &about))
        return find_newest(path, ret_path, err);
    snprintf(ret_path, PATH_MAX, "%s", path);
    return AH_OK;
}

int ah_checkpoints_resume(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          const char *path, struct ah_checkpoint_position *ret_position, struct ah_error *err)
{
    char found[PATH_MAX], folder[PATH_MAX];
    uint64_t step;
    int rc = ah_checkpoints_find(path, found, err);
    if (rc)
        return rc;
    if (!found[0])
        return ah_stream_say(err, AH_E_IO, path, "has no checkpoint in it; name another folder");
    rc = ah_checkpoint_load(job, sink, found, ret_position, err);
    const char *slash = strrchr(found, '/');
    bool damaged = rc == AH_E_DOCUMENT || rc == AH_E_IO || rc == AH_E_NUMERIC;
    if (damaged && ah_steps_parse(slash ? slash + 1 : found, "", &step)) {
        ah_stream_parent(found, folder);
        add_older(folder, step, rc, err);
    }
    return rc;
}
