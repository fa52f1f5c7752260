/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves, finds and loads checkpoints while each allocation and each system call fails once. Expects an error that names
 * a file, an intact previous checkpoint, nothing left behind, and no leak.
 */
#include "runtime/train/checkpoint/checkpoints.h"
#include "tests/support/calls.h"
#include "tests/support/check.h"
#include "tests/support/fault.h"
#include "tests/support/root.h"
#include "tests/support/training.h"

#include <ftw.h>
#include <limits.h>

struct scene {
    struct training run;
    char folder[PATH_MAX];
};

static void begin_owners(struct scene *scene, void **state, uint64_t file_bytes, unsigned owners)
{
    calls_reset();
    memset(scene, 0, sizeof *scene);
    training_init(&scene->run,
                  &(struct training_options){.dtype = AH_BF16, .file_bytes = file_bytes, .owners = owners});
    snprintf(scene->folder, sizeof scene->folder, "%s/out", (char *)*state);
}

static void begin(struct scene *scene, void **state, uint64_t file_bytes)
{
    begin_owners(scene, state, file_bytes, 0);
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *at)
{
    (void)about, (void)type, (void)at;
    return remove(path);
}

static void clear(const struct scene *scene)
{
    nftw(scene->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static int save(struct scene *scene, uint64_t step, struct ah_error *err)
{
    struct ah_checkpoints *checkpoints = NULL;
    struct ah_checkpoints_saved saved;
    const struct ah_checkpoints_found from = {.step = step - 1};
    int rc = ah_checkpoints_open(&checkpoints, &scene->run.job, scene->folder, &from, err);
    if (!rc)
        rc = ah_checkpoints_save(checkpoints, training_at(&scene->run, step), &scene->run.source,
                                 &(struct ah_checkpoints_keep){.newest = 1}, &saved, err);
    ah_checkpoints_close(checkpoints);
    return rc;
}

static int resume(struct scene *scene, struct ah_checkpoint_position *position, struct ah_error *err)
{
    training_wrong(&scene->run, 1); /* forgets the loaded values */
    struct ah_checkpoints_found found;
    return training_resume(&scene->run, scene->folder, &found, position, err);
}

static unsigned leftovers(const char *folder)
{
    unsigned n = 0;
    DIR *listing = opendir(folder);
    if (!listing) /* the folder was never created */
        return 0;
    for (struct dirent *entry; (entry = readdir(listing));)
        n += strstr(entry->d_name, ".tmp") != NULL;
    closedir(listing);
    return n;
}

/* Saves step 1. Saves step 2 while call `at` fails. */
static int save_with_failure(struct scene *scene, const char *only, unsigned at, int reason,
                             struct ah_error *err)
{
    calls_reset();
    clear(scene);
    CHECK_OK(save(scene, 1, err), *err);
    calls_reset();
    calls.only = only;
    calls.at = at;
    calls.reason = reason;
    int rc = save(scene, 2, err);
    calls.at = 0;
    return rc;
}

/* Checks the newest checkpoint and returns its step. */
static uint64_t check_whole(struct scene *scene, int rc, unsigned at)
{
    struct ah_error err = {0};
    struct ah_checkpoint_position position = {0};
    CHECK_OK(resume(scene, &position, &err), err);
    if (position.step != 2 && (position.step != 1 || !rc))
        fail_msg("call %u: returned %d, and step %d is found", at, rc, (int)position.step);
    assert_string_equal(training_wrong(&scene->run, position.step), "");
    return position.step;
}

/* Fails each call of one name once, and returns the number of calls. */
static unsigned sweep(struct scene *scene, const char *name, int reason)
{
    for (unsigned at = 1;; at++) {
        struct ah_error err = {0};
        int rc = save_with_failure(scene, name, at, reason, &err);
        if (calls.made < at) {
            CHECK_OK(rc, err);
            return at - 1;
        }
        if (rc) {
            assert_int_equal(rc, AH_E_IO);
            check_text_has(err.text, scene->folder);
            check_text_has(err.text, strerror(reason));
            assert_int_equal(leftovers(scene->folder), 0);
        }
        uint64_t step = check_whole(scene, rc, at);
        CHECK_OK(save(scene, step + 1, &err), err); /* nothing left behind prevents the next save */
        assert_int_equal(leftovers(scene->folder), 0);
    }
}

static void sweep_all(struct scene *scene)
{
    static const struct {
        const char *name;
        int reason;
        unsigned least;
    } cases[] = {{"pwrite", ENOSPC, 30}, {"write", ENOSPC, 1},   {"fallocate", ENOSPC, 2}, {"fsync", EIO, 8},
                 {"open", EMFILE, 15},   {"mkdir", EROFS, 1},    {"rename", EIO, 4},       {"unlink", EIO, 4},
                 {"rmdir", EIO, 1},      {"opendir", EACCES, 3}, {"pread", EIO, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned n = sweep(scene, cases[i].name, cases[i].reason);
        print_message("%s: %u\n", cases[i].name, n);
        assert_true(n >= cases[i].least);
    }
    training_release(&scene->run);
}

TEST_IN(faults, of_every_call_leave_a_checkpoint, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state, 50000);
    sweep_all(&scene);
}

TEST_IN(faults, of_every_call_of_several_owners_leave_a_checkpoint, root_make, root_remove)
{
    struct scene scene;
    begin_owners(&scene, state, 50000, 3);
    sweep_all(&scene);
}

static const char *noted(const char *line)
{
    const char *at = strstr(calls.synced, line);
    if (!at)
        fail_msg("'%s' is not in:\n%s", line, calls.synced);
    return at;
}

/* A crash of the machine loses all data that was not synced. */
TEST_IN(faults, of_power_find_everything_synced, root_make, root_remove)
{
    static const char *const files[] = {"states.bin", "model.safetensors", "checkpoint.json.part"};
    struct scene scene;
    struct ah_error err = {0};
    char line[4 * PATH_MAX];
    begin(&scene, state, 0);
    CHECK_OK(save_with_failure(&scene, NULL, 0, 0, &err), err); /* without a failure */
    snprintf(line, sizeof line, "> %s/step-00000002\n", scene.folder);
    const char *there = noted(line);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(line, sizeof line, "%s/step-00000002.tmp/%s\n", scene.folder, files[i]);
        assert_true(noted(line) < there);
    }
    snprintf(line, sizeof line,
             "> %s/step-00000002.tmp/checkpoint.json\n%s/step-00000002.tmp\n> %s/step-00000002\n",
             scene.folder, scene.folder, scene.folder);
    noted(line);
    snprintf(line, sizeof line, "\n%s\n> %s/step-00000001.tmp\n%s\n", scene.folder, scene.folder,
             scene.folder);
    assert_true(noted(line) > there);
    training_release(&scene.run);
}

static unsigned count_synced(const char *line)
{
    unsigned n = 0;
    for (const char *at = calls.synced; (at = strstr(at, line)); at++)
        n++;
    return n;
}

/* Each file is synced by its creator and by every owner that wrote into it. */
TEST_IN(faults, of_power_find_what_owners_wrote_synced, root_make, root_remove)
{
    static const char *const files[] = {"states.bin", "model.safetensors"};
    enum { OWNERS = 3 };
    struct scene scene;
    struct ah_error err = {0};
    char line[2 * PATH_MAX];
    begin_owners(&scene, state, 0, OWNERS);
    CHECK_OK(save_with_failure(&scene, NULL, 0, 0, &err), err); /* without a failure */
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(line, sizeof line, "%s/step-00000002.tmp/%s\n", scene.folder, files[i]);
        assert_int_equal(count_synced(line), 1 + OWNERS);
    }
    training_release(&scene.run);
}

/* Some file systems report a full disk when a file is closed. This gives an error, or loses nothing. */
TEST_IN(faults, of_closing_lose_nothing, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state, 0);
    for (unsigned at = 1;; at++) {
        struct ah_error err = {0};
        int rc = save_with_failure(&scene, "close", at, EDQUOT, &err);
        check_whole(&scene, rc, at);
        if (calls.made < at)
            break;
    }
    training_release(&scene.run);
}

TEST_IN(faults, of_reading_are_named, root_make, root_remove)
{
    static const char *const names[] = {"pread", "open", "opendir"};
    struct scene scene;
    struct ah_error err = {0};
    begin(&scene, state, 50000);
    CHECK_OK(save(&scene, 1, &err), err);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (unsigned at = 1;; at++) {
            struct ah_checkpoint_position position;
            calls_reset();
            calls.only = names[i];
            calls.at = at;
            calls.reason = EIO;
            int rc = resume(&scene, &position, &err);
            if (calls.made < at) {
                CHECK_OK(rc, err);
                assert_true(at > 1);
                break;
            }
            assert_true(rc == AH_E_IO || rc == AH_E_DOCUMENT);
            check_text_has(err.text, "cannot be");
            check_text_has(err.text, scene.folder);
        }
    training_release(&scene.run);
}

TEST_IN(faults, interruptions_are_nothing, root_make, root_remove)
{
    static const char *const names[] = {"pwrite", "write", "fallocate", "fsync", "pread", "close"};
    struct scene scene;
    struct ah_error err = {0};
    begin(&scene, state, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_OK(save_with_failure(&scene, names[i], 1, EINTR, &err), err);
        check_whole(&scene, AH_OK, 1);
    }
    CHECK_OK(save_with_failure(&scene, "fsync", 1, EINVAL, &err), err);
    CHECK_OK(save_with_failure(&scene, "fallocate", 1, EOPNOTSUPP, &err), err);
    training_release(&scene.run);
}

static int load_again(void *context, struct ah_error *err)
{
    struct ah_checkpoint_position position = {0};
    return resume(context, &position, err);
}

static int save_first(void *context, struct ah_error *err)
{
    struct scene *scene = context;
    clear(scene);
    int rc = save(scene, 1, err);
    if (rc && leftovers(scene->folder))
        fail_msg("a save that failed left something");
    return rc;
}

static void sweep_allocations(void **state, unsigned owners)
{
    struct scene scene;
    struct ah_error err = {0};
    begin_owners(&scene, state, 0, owners);
    size_t saving = fault_sweep(save_first, &scene, 1);
    CHECK_OK(save_first(&scene, &err), err);
    size_t loading = fault_sweep(load_again, &scene, owners > 0); /* one owner needs no manifest */
    assert_string_equal(training_wrong(&scene.run, 1), "");
    print_message("allocations: %zu saving, %zu loading\n", saving, loading);
    assert_true(saving > 100 && loading > 50);
    training_release(&scene.run);
}

TEST_IN(faults, of_every_allocation, root_make, root_remove)
{
    sweep_allocations(state, 0);
    sweep_allocations(state, 2);
}

static int refuse(void *context, struct ah_error *err)
{
    int rc = load_again(context, err);
    return rc == AH_E_MEMORY ? rc : AH_OK;
}

TEST_IN(faults, of_allocations_while_refusing, root_make, root_remove)
{
    struct scene scene;
    struct ah_error err = {0};
    begin(&scene, state, 0);
    CHECK_OK(save(&scene, 1, &err), err);
    scene.run.chosen.seed++;
    fault_sweep(refuse, &scene, 1);
    training_release(&scene.run);
}
