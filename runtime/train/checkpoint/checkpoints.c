/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a run's checkpoints. It is locked, so what looks like a leftover in it is never a running save.
 *
 * An old checkpoint is removed in two steps: it is renamed to a leftover and synced, then deleted. So a kill or a crash
 * in between leaves a leftover, never a checkpoint without all its files.
 */
#include "runtime/train/checkpoint/checkpoints.h"

#include "runtime/train/checkpoint/leftover_internal.h"
#include "runtime/train/checkpoint/steps_internal.h"
#include "runtime/train/checkpoint/stream_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DAMAGED_ENDING ".damaged"
#define WEIGHTS_ALONE  "weights-only-"

struct ah_checkpoints {
    const struct ah_checkpoint_job *job; /* borrowed */
    char folder[PATH_MAX];
    int lock;  /* descriptor of the folder */
    bool made; /* true if this run made the folder; close removes it if it is empty */
};

/* ---- opening ---- */

static int make_folder(struct ah_checkpoints *checkpoints, struct ah_error *err)
{
    const char *folder = checkpoints->folder;
    char path[PATH_MAX], parent[PATH_MAX];
    snprintf(path, sizeof path, "%s", folder);
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = '\0';
    if (mkdir(path, 0777))
        return errno == EEXIST ? AH_OK : ah_stream_fail(err, folder, "made");
    checkpoints->made = true;
    ah_stream_parent(path, parent);
    return ah_stream_sync_folder(parent, err);
}

/* Opens and locks the folder. A file system without locks is no error. */
static int lock_folder(struct ah_checkpoints *checkpoints, struct ah_error *err)
{
    const char *folder = checkpoints->folder;
    checkpoints->lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (checkpoints->lock < 0)
        return ah_stream_fail(err, folder, "opened");
    if (flock(checkpoints->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return ah_stream_say(err, AH_E_IO, folder, "another run is saving into it; name another folder");
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS))
        return ah_stream_fail(err, folder, "written");
    return AH_OK;
}

static int remove_leftovers(const struct ah_checkpoints *checkpoints, const struct ah_steps *steps,
                            struct ah_error *err)
{
    int rc = AH_OK;
    for (size_t i = 0; i < steps->n_leftovers && !rc; i++) {
        char path[PATH_MAX];
        bool removed;
        rc = ah_steps_path(checkpoints->folder, steps->leftovers[i], AH_LEFTOVER_ENDING, path, err);
        if (!rc)
            rc = ah_leftover_remove(path, &removed, err);
    }
    return rc;
}

/* True if `found` was searched in this folder, and says that the checkpoint of `step` is damaged. */
static bool is_damaged(const struct ah_checkpoints *checkpoints, const struct ah_checkpoints_found *found,
                       uint64_t step)
{
    struct stat ours, theirs;
    return found->damaged.code && step > found->step && step <= found->newest_step &&
           !fstat(checkpoints->lock, &ours) && !stat(found->folder, &theirs) &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Fails if the folder has later steps, which saving could reach, or checkpoints of another run, which `keep` could
 * remove. Ignores everything else, since it is never removed. */
static int check_steps(const struct ah_checkpoints *checkpoints, const struct ah_steps *steps,
                       const struct ah_checkpoints_found *found, struct ah_error *err)
{
    const char *folder = checkpoints->folder;
    int rc = AH_OK;
    if (steps->n && steps->items[0] > found->step && !is_damaged(checkpoints, found, steps->items[0]))
        return ah_stream_say(err, AH_E_MISMATCH, folder,
                             "has a checkpoint of step %" PRIu64 ", but this run is at step %" PRIu64 "; "
                             "continue from it with '--resume %s', or save into another folder",
                             steps->items[0], found->step, folder);
    for (size_t i = 0; i < steps->n && !rc; i++) {
        struct ah_document manifest;
        char path[PATH_MAX];
        rc = ah_steps_path(folder, steps->items[i], "", path, err);
        int whole = rc ? rc : ah_steps_check(folder, steps->items[i], &manifest, NULL);
        if (whole == AH_E_MEMORY)
            rc = ah_error_memory(err);
        if (whole)
            continue;
        rc = ah_manifest_check_signature(&manifest, path, checkpoints->job->signature, err);
        ah_document_release(&manifest);
    }
    return rc;
}

/* Renames a damaged checkpoint to step-N.damaged, which is no name of a step. If that exists, adds a number. */
static int set_aside(const struct ah_checkpoints *checkpoints, uint64_t step, struct ah_error *err)
{
    char path[PATH_MAX], aside[PATH_MAX], ending[sizeof DAMAGED_ENDING + 16] = DAMAGED_ENDING;
    int rc = ah_steps_path(checkpoints->folder, step, "", path, err);
    for (unsigned n = 2; !rc; n++) {
        rc = ah_steps_path(checkpoints->folder, step, ending, aside, err);
        if (rc || rename(path, aside) == 0)
            return rc;
        if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
            return ah_stream_fail(err, path, "renamed");
        snprintf(ending, sizeof ending, DAMAGED_ENDING "-%u", n);
    }
    return rc;
}

static int set_damaged_aside(const struct ah_checkpoints *checkpoints, const struct ah_steps *steps,
                             const struct ah_checkpoints_found *found, struct ah_error *err)
{
    bool moved = false;
    int rc = AH_OK;
    for (size_t i = 0; i < steps->n && !rc; i++)
        if (is_damaged(checkpoints, found, steps->items[i])) {
            rc = set_aside(checkpoints, steps->items[i], err);
            moved = true;
        }
    return rc || !moved ? rc : ah_stream_sync_folder(checkpoints->folder, err);
}

static int open_folder(struct ah_checkpoints *checkpoints, const struct ah_checkpoints_found *found,
                       struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    int rc = make_folder(checkpoints, err);
    if (!rc)
        rc = lock_folder(checkpoints, err);
    if (!rc)
        rc = ah_steps_list(checkpoints->folder, &arena, &steps, err);
    if (!rc)
        rc = check_steps(checkpoints, &steps, found, err);
    if (!rc)
        rc = set_damaged_aside(checkpoints, &steps, found, err);
    if (!rc)
        rc = remove_leftovers(checkpoints, &steps, err);
    ah_arena_release(&arena);
    return rc;
}

int ah_checkpoints_open(struct ah_checkpoints **ret_checkpoints, const struct ah_checkpoint_job *job,
                        const char *folder, const struct ah_checkpoints_found *found, struct ah_error *err)
{
    struct ah_checkpoints *checkpoints = calloc(1, sizeof *checkpoints);
    if (!checkpoints)
        return ah_error_memory(err);
    checkpoints->job = job;
    checkpoints->lock = -1;
    int rc = snprintf(checkpoints->folder, PATH_MAX, "%s", folder) < PATH_MAX
                 ? open_folder(checkpoints, found, err)
                 : ah_stream_say(err, AH_E_IO, folder, "the name is too long; choose a shorter one");
    if (rc)
        ah_checkpoints_close(checkpoints);
    else
        *ret_checkpoints = checkpoints;
    return rc;
}

void ah_checkpoints_close(struct ah_checkpoints *checkpoints)
{
    if (!checkpoints)
        return;
    if (checkpoints->made)
        (void)rmdir(checkpoints->folder); /* fails unless it is empty */
    if (checkpoints->lock >= 0)
        close(checkpoints->lock);
    free(checkpoints);
}

/* ---- keeping the newest ---- */

/* Checks that the folder contains the files of its manifest and nothing else. */
static int check_only(const char *path, const struct ah_checkpoint *manifest, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_leftover_names names = {0};
    bool ours = false;
    int rc = ah_leftover_list(path, &arena, &names, err);
    if (!rc)
        rc = ah_leftover_ours(path, &ours, err);
    for (size_t i = 0; i < names.n && !rc && ours; i++)
        ours = strcmp(names.items[i], AH_CHECKPOINT_MANIFEST) == 0 ||
               ah_manifest_file(manifest, names.items[i]) != NULL;
    ah_arena_release(&arena);
    if (!rc && !ours)
        rc = ah_stream_say(err, AH_E_FAILED, path, "is kept because it also holds other files");
    return rc;
}

static int remove_checkpoint(const struct ah_checkpoints *checkpoints, uint64_t step,
                             const struct ah_document *manifest, struct ah_error *err)
{
    char path[PATH_MAX], aside[PATH_MAX];
    bool removed;
    int rc = ah_steps_path(checkpoints->folder, step, "", path, err);
    if (!rc)
        rc = ah_steps_path(checkpoints->folder, step, AH_LEFTOVER_ENDING, aside, err);
    if (!rc)
        rc = ah_manifest_check_signature(manifest, path, checkpoints->job->signature, err);
    if (!rc)
        rc = check_only(path, manifest->body.checkpoint, err);
    if (!rc && rename(path, aside))
        rc = ah_stream_fail(err, path, "removed");
    if (!rc)
        rc = ah_stream_sync_folder(checkpoints->folder, err);
    return rc ? rc : ah_leftover_remove(aside, &removed, err);
}

static bool is_also_kept(const struct ah_checkpoints_keep *keep, uint64_t step)
{
    bool kept = false;
    for (size_t i = 0; i < keep->n_also; i++)
        kept |= keep->also[i] == step;
    return kept;
}

/* Removes whole checkpoints but the newest and those named. Continues after a failure; returns the last failure. */
static int keep_newest(const struct ah_checkpoints *checkpoints, const struct ah_checkpoints_keep *keep,
                       struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    uint64_t whole = 0;
    int rc = ah_steps_list(checkpoints->folder, &arena, &steps, err);
    for (size_t i = 0; i < steps.n; i++) {
        struct ah_document manifest;
        if (ah_steps_check(checkpoints->folder, steps.items[i], &manifest, NULL))
            continue;
        int failure = ++whole > keep->newest && !is_also_kept(keep, steps.items[i])
                          ? remove_checkpoint(checkpoints, steps.items[i], &manifest, err)
                          : AH_OK;
        ah_document_release(&manifest);
        rc = failure ? failure : rc;
    }
    ah_arena_release(&arena);
    return rc;
}

int ah_checkpoints_save(struct ah_checkpoints *checkpoints, const struct ah_checkpoint_position *position,
                        const struct ah_checkpoint_source *source, const struct ah_checkpoints_keep *keep,
                        struct ah_checkpoints_saved *ret_saved, struct ah_error *err)
{
    struct ah_error warning = {0};
    char path[PATH_MAX];
    int rc = ah_steps_path(checkpoints->folder, position->step, "", path, err);
    if (rc)
        return rc;
    if (ah_steps_check(checkpoints->folder, position->step, NULL, NULL))
        rc = ah_checkpoint_save(checkpoints->job, position, source, path, err);
    if (rc)
        return rc;
    if (keep->newest)
        keep_newest(checkpoints, keep, &warning);
    snprintf(ret_saved->path, sizeof ret_saved->path, "%s", path);
    snprintf(ret_saved->warning, sizeof ret_saved->warning, "%s", warning.text);
    return AH_OK;
}

/* ---- saving with little room ---- */

int ah_checkpoints_save_weights(struct ah_checkpoints *checkpoints,
                                const struct ah_checkpoint_position *position,
                                const struct ah_checkpoint_source *source, char ret_path[PATH_MAX],
                                struct ah_error *err)
{
    char name[AH_STEPS_NAME_MAX];
    snprintf(name, sizeof name, WEIGHTS_ALONE "%08" PRIu64, position->step);
    int rc = ah_stream_path(checkpoints->folder, name, ret_path, err);
    return rc ? rc : ah_checkpoint_save_weights(checkpoints->job, source, ret_path, err);
}

uint64_t ah_checkpoints_weights_alone(const char *folder, char ret_path[PATH_MAX])
{
    uint64_t newest = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        char *end = NULL;
        if (strncmp(entry->d_name, WEIGHTS_ALONE, strlen(WEIGHTS_ALONE)) != 0)
            continue;
        uint64_t step = strtoull(entry->d_name + strlen(WEIGHTS_ALONE), &end, 10);
        if (!*end && step > newest && !ah_stream_path(folder, entry->d_name, ret_path, NULL))
            newest = step;
    }
    if (listing)
        closedir(listing);
    return newest;
}

int ah_checkpoints_find_room(const struct ah_checkpoints *checkpoints, uint64_t keep, uint64_t saves,
                             struct ah_checkpoints_room *ret_room, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_steps steps = {0};
    struct ah_checkpoint_bytes bytes = {0};
    struct ah_checkpoints_room room = {.free_bytes = UINT64_MAX};
    struct statvfs about;
    int rc = ah_steps_list(checkpoints->folder, &arena, &steps, err);
    rc = rc ? rc : ah_checkpoint_bytes(checkpoints->job, &bytes, err);
    uint64_t there = 0;
    for (size_t i = 0; i < steps.n && !rc; i++) {
        int whole = ah_steps_check(checkpoints->folder, steps.items[i], NULL, NULL);
        there += !whole;
        rc = whole == AH_E_MEMORY ? ah_error_memory(err) : AH_OK;
    }
    ah_arena_release(&arena);
    room.checkpoints = saves;
    if (keep && saves && there + saves - 1 > keep)
        room.checkpoints = keep >= there ? keep + 1 - there : 1;
    room.one_bytes = bytes.whole;
    room.needed_bytes = bytes.whole && room.checkpoints > UINT64_MAX / bytes.whole
                            ? UINT64_MAX
                            : room.checkpoints * bytes.whole;
    if (!fstatvfs(checkpoints->lock, &about) && about.f_blocks)
        room.free_bytes = (uint64_t)about.f_bavail * about.f_frsize;
    *ret_room = room;
    return rc;
}
