/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding: finds the newest whole checkpoint. If the newest is damaged, an older one counts as whole only if every file
 * has its sha256. The result says what was skipped, so nobody loses steps unknowingly. If a file cannot be read for
 * another reason (permissions, a lost network), the run ends and names the previous checkpoint.
 */
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/checkpoint/steps_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Adds the newest whole checkpoint of `folder` before `step` to `err`, if there is one. Returns `rc`. */
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

/* Sets `found` to the newest checkpoint before `found->newest_step` whose files all have their sha256. Returns false,
 * with `found` unchanged, if there is none. `steps` lists the folder. */
static bool take_older(struct ah_checkpoints_found *found, const struct ah_steps *steps,
                       const struct ah_error *damaged)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < steps->n; i++) {
        if (steps->items[i] >= found->newest_step ||
            ah_steps_check(found->folder, steps->items[i], NULL, NULL) ||
            ah_steps_path(found->folder, steps->items[i], "", path, NULL) || ah_checkpoint_verify(path, NULL))
            continue;
        snprintf(found->path, sizeof found->path, "%s", path);
        found->step = steps->items[i];
        found->damaged = *damaged;
        return true;
    }
    return false;
}

/* Replaces the newest checkpoint, which `damaged` describes, by an older one. Without one, returns the code of
 * `damaged`. */
static int replace_damaged(struct ah_checkpoints_found *found, const struct ah_error *damaged,
                           struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    int rc = ah_steps_list(found->folder, &arena, &steps, err);
    if (!rc && !take_older(found, &steps, damaged))
        rc = ah_error_set(err, damaged->code, "%s; no older checkpoint beside it is complete", damaged->text);
    ah_arena_release(&arena);
    return rc;
}

static int find_newest(struct ah_checkpoints_found *found, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    struct ah_error damaged = {0};
    int rc = ah_steps_list(found->folder, &arena, &steps, err);
    if (!rc && steps.n) {
        found->newest_step = found->step = steps.items[0];
        rc = ah_steps_check(found->folder, steps.items[0], NULL, &damaged);
        if (!rc)
            rc = ah_steps_path(found->folder, steps.items[0], "", found->path, err);
        else if (rc == AH_E_DOCUMENT)
            rc = replace_damaged(found, &damaged, err);
        else {
            ah_error_set(err, rc, "%s", damaged.text);
            rc = rc == AH_E_MEMORY ? rc : add_older(found->folder, steps.items[0], rc, err);
        }
    }
    ah_arena_release(&arena);
    return rc;
}

/* Adds to `err` the newest whole checkpoint older than `found->path`. Returns `rc`. */
static int name_older(const struct ah_checkpoints_found *found, int rc, struct ah_error *err)
{
    char folder[PATH_MAX];
    uint64_t step;
    const char *slash = strrchr(found->path, '/');
    if (ah_steps_parse(slash ? slash + 1 : found->path, "", &step)) {
        ah_stream_parent(found->path, folder);
        add_older(folder, step, rc, err);
    }
    return rc;
}

/* Checks that the manifest of a checkpoint can be read that the user named itself. */
static int take_named(struct ah_checkpoints_found *found, struct ah_error *err)
{
    struct ah_document manifest = {0};
    int rc = ah_manifest_load(&manifest, found->path, err);
    ah_document_release(&manifest);
    return rc == AH_E_DOCUMENT ? name_older(found, rc, err) : rc;
}

int ah_checkpoints_find(const char *path, struct ah_checkpoints_found *ret_found, struct ah_error *err)
{
    char manifest[PATH_MAX];
    struct stat about;
    int rc = ah_stream_path(path, AH_CHECKPOINT_MANIFEST, manifest, err);
    if (rc)
        return rc;
    if (stat(path, &about))
        return errno == ENOENT ? ah_stream_say(err, AH_E_IO, path,
                                               "does not exist; name a folder of checkpoints, or a "
                                               "checkpoint")
                               : ah_stream_fail(err, path, "read");
    if (!S_ISDIR(about.st_mode))
        return ah_stream_say(err, AH_E_IO, path,
                             "is not a folder; name a folder of checkpoints, or a "
                             "checkpoint");
    *ret_found = (struct ah_checkpoints_found){0};
    const char *slash = strrchr(path, '/');
    uint64_t step;
    if (lstat(manifest, &about) && !ah_steps_parse(slash ? slash + 1 : path, "", &step)) {
        snprintf(ret_found->folder, PATH_MAX, "%s", path);
        return find_newest(ret_found, err);
    }
    snprintf(ret_found->path, PATH_MAX, "%s", path);
    return take_named(ret_found, err);
}

int ah_checkpoints_resume(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                          struct ah_checkpoints_found *found, struct ah_checkpoint_position *ret_position,
                          struct ah_error *err)
{
    struct ah_error own = {0};
    found->again = false;
    int rc = ah_checkpoint_load(job, sink, found->path, ret_position, &own);
    if (rc == AH_E_DOCUMENT && found->folder[0] && !found->damaged.code &&
        !replace_damaged(found, &own, NULL))
        found->again = true;
    if (rc)
        ah_error_set(err, rc, "%s", own.text);
    bool named = rc == AH_E_DOCUMENT || rc == AH_E_IO || rc == AH_E_NUMERIC;
    return named && !found->again ? name_older(found, rc, err) : rc;
}
