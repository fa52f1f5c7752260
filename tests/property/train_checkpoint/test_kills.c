/* SPDX-License-Identifier: Apache-2.0
 *
 * Kills a run at every call that changes a file: before the call, in the middle of it, or right after it. Each time,
 * the newest reported checkpoint, or a newer one, must exist and load bit for bit. The next start removes what the kill
 * left behind, and the resumed run ends with the same files as one without a kill.
 */
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/checkpoint/steps_internal.h"
#include "tests/support/calls.h"
#include "tests/support/check.h"
#include "tests/support/root.h"
#include "tests/support/training.h"

#include <limits.h>
#include <sys/wait.h>

enum { LAST = 3, KEEP = 2 };

/* Resumes from `step` and trains up to LAST. Writes the number of each saved step to `report`. */
static int go_on(struct training *run, const char *folder, uint64_t step, int report, struct ah_error *err)
{
    struct ah_checkpoints *checkpoints = NULL;
    struct ah_checkpoints_saved saved;
    const struct ah_checkpoints_found from = {.step = step};
    int rc = ah_checkpoints_open(&checkpoints, &run->job, folder, &from, err);
    for (step++; step <= LAST && !rc; step++) {
        rc = ah_checkpoints_save(checkpoints, training_at(run, step), &run->source,
                                 &(struct ah_checkpoints_keep){.newest = KEEP}, &saved, err);
        unsigned char done = (unsigned char)step;
        if (!rc && report >= 0 && __real_write(report, &done, 1) != 1)
            rc = AH_E_IO;
        if (!rc && saved.warning[0])
            rc = ah_error_set(err, AH_E_FAILED, "%s", saved.warning);
    }
    ah_checkpoints_close(checkpoints);
    return rc;
}

/* Runs in a process that is killed at call `at`. Returns true if it was. `ret_done` is the last step reported. */
static int run_and_kill(struct training *run, const char *folder, unsigned at, enum calls_then then,
                        unsigned *ret_done)
{
    int ends[2], status;
    unsigned char done;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        calls_reset();
        calls.at = at;
        calls.then = then;
        _exit(go_on(run, folder, 0, ends[1], NULL) ? 1 : 0);
    }
    close(ends[1]);
    *ret_done = 0;
    while (read(ends[0], &done, 1) == 1)
        *ret_done = done;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

/* Returns the step found by a resume, or 0 if nothing was saved. Checks the values of that step. */
static uint64_t resume(struct training *run, const char *folder)
{
    struct ah_error err = {0};
    struct ah_checkpoint_position position = {0};
    struct ah_checkpoints_found found;
    struct stat about;
    if (stat(folder, &about))
        return 0;
    CHECK_OK(ah_checkpoints_find(folder, &found, &err), err);
    if (!found.path[0])
        return 0;
    CHECK_OK(training_resume(run, folder, &found, &position, &err), err);
    assert_string_equal(training_wrong(run, position.step), "");
    return position.step;
}

static unsigned count_whole(const char *folder)
{
    unsigned n = 0;
    DIR *listing = opendir(folder);
    if (!listing) /* nothing was saved, so whoever opened the empty folder removed it */
        return 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct ah_error err = {0};
        uint64_t step;
        if (entry->d_name[0] == '.')
            continue;
        if (!ah_steps_parse(entry->d_name, "", &step))
            fail_msg("'%s' was left behind", entry->d_name);
        CHECK_OK(ah_steps_check(folder, step, NULL, &err), err);
        n++;
    }
    closedir(listing);
    return n;
}

static void check_after(struct training *run, const char *folder, unsigned done, unsigned at)
{
    struct ah_error err = {0};
    struct ah_checkpoints *checkpoints;
    struct ah_checkpoints_found from = {0};
    char command[PATH_MAX + 16];
    uint64_t step = resume(run, folder);
    if (step < done || step > done + 1)
        fail_msg("killed at call %u: step %d was reported, %d is found", at, (int)done, (int)step);
    from.step = step;
    CHECK_OK(ah_checkpoints_open(&checkpoints, &run->job, folder, &from, &err), err);
    ah_checkpoints_close(checkpoints);
    assert_in_range(count_whole(folder), step < KEEP ? step : KEEP, KEEP + 1);
    CHECK_OK(go_on(run, folder, step, -1, &err), err);
    assert_int_equal(resume(run, folder), LAST);
    assert_in_range(count_whole(folder), KEEP, KEEP + (step == LAST));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

static void kill_everywhere(void **state, enum calls_then then, const struct training_options *options)
{
    struct training run;
    char folder[PATH_MAX];
    unsigned at = 1, done;
    calls_reset();
    training_init(&run, options);
    snprintf(folder, sizeof folder, "%s/out", (char *)*state);
    while (run_and_kill(&run, folder, at, then, &done)) {
        check_after(&run, folder, done, at);
        at++;
    }
    assert_int_equal(done, LAST);
    check_after(&run, folder, done, at);
    print_message("killed at %u moments\n", at - 1);
    assert_true(at > 100);
    training_release(&run);
}

TEST_IN(kills, before_every_call, root_make, root_remove)
{
    kill_everywhere(state, CALLS_KILL, &(struct training_options){.dtype = AH_BF16, .file_bytes = 50000});
}

TEST_IN(kills, within_every_call, root_make, root_remove)
{
    kill_everywhere(state, CALLS_HALF, &(struct training_options){.state_dtype = AH_BF16});
}

/* Several owners write files. All are in the one process that is killed. */
TEST_IN(kills, before_every_call_of_several_owners, root_make, root_remove)
{
    kill_everywhere(state, CALLS_KILL,
                    &(struct training_options){.dtype = AH_BF16, .file_bytes = 50000, .owners = 3});
}

TEST_IN(kills, within_every_call_of_several_owners, root_make, root_remove)
{
    kill_everywhere(state, CALLS_HALF, &(struct training_options){.state_dtype = AH_BF16, .owners = 2});
}
