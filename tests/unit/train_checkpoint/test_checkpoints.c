/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the folder of checkpoints: from which one a run resumes, and which are removed, kept or set aside.
 */
#include "runtime/train/checkpoint/checkpoints.h"

#include "tests/support/check.h"
#include "tests/support/root.h"
#include "tests/support/training.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

struct scene {
    struct training run;
    struct ah_checkpoints *checkpoints;
    struct ah_checkpoints_saved saved;
    struct ah_checkpoints_found found;
    char folder[PATH_MAX];
    struct ah_error err;
};

static void begin(struct scene *scene, void **state)
{
    memset(scene, 0, sizeof *scene);
    training_init(&scene->run, &(struct training_options){.dtype = AH_BF16});
    snprintf(scene->folder, sizeof scene->folder, "%s/out", (char *)*state);
}

static void end(struct scene *scene)
{
    ah_checkpoints_close(scene->checkpoints);
    training_release(&scene->run);
}

static int try_open(struct scene *scene, uint64_t step)
{
    const struct ah_checkpoints_found from = {.step = step};
    return ah_checkpoints_open(&scene->checkpoints, &scene->run.job, scene->folder, &from, &scene->err);
}

static void reopen(struct scene *scene, uint64_t step)
{
    ah_checkpoints_close(scene->checkpoints);
    scene->checkpoints = NULL;
    CHECK_OK(try_open(scene, step), scene->err);
}

static void save(struct scene *scene, uint64_t step, uint64_t keep)
{
    CHECK_OK(ah_checkpoints_save(scene->checkpoints, training_at(&scene->run, step), &scene->run.source,
                                 &(struct ah_checkpoints_keep){.newest = keep}, &scene->saved, &scene->err),
             scene->err);
}

static void expect(struct scene *scene, const char *path, uint64_t step)
{
    struct ah_checkpoint_position position = {0};
    training_wrong(&scene->run, step); /* forgets what a failed load returned */
    CHECK_OK(training_resume(&scene->run, path, &scene->found, &position, &scene->err), scene->err);
    assert_int_equal(position.step, step);
    assert_int_equal(position.cursor, 8 * step);
    assert_int_equal(position.tokens, 127 * step);
    assert_string_equal(training_wrong(&scene->run, step), "");
}

static int resume(struct scene *scene, const char *path)
{
    struct ah_checkpoint_position position;
    return training_resume(&scene->run, path, &scene->found, &position, &scene->err);
}

static int there(const struct scene *scene, const char *name)
{
    char path[PATH_MAX + 64];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", scene->folder, name);
    return lstat(path, &about) == 0;
}

static const char *below(const struct scene *scene, const char *name, char out[PATH_MAX + 64])
{
    snprintf(out, PATH_MAX + 64, "%s/%s", scene->folder, name);
    return out;
}

TEST_IN(checkpoints, the_newest_is_found_the_oldest_go, root_make, root_remove)
{
    struct scene scene;
    char path[PATH_MAX + 64];
    begin(&scene, state);
    reopen(&scene, 0);
    for (uint64_t step = 100; step <= 500; step += 100)
        save(&scene, step, 2);
    assert_string_equal(scene.saved.warning, "");
    assert_string_equal(scene.saved.path, below(&scene, "step-00000500", path));
    assert_true(there(&scene, "step-00000500") && there(&scene, "step-00000400"));
    assert_false(there(&scene, "step-00000300") || there(&scene, "step-00000100"));
    expect(&scene, scene.folder, 500);
    expect(&scene, below(&scene, "step-00000400", path), 400);
    save(&scene, 100000000, 0); /* nine digits; every checkpoint is kept */
    assert_true(there(&scene, "step-100000000") && there(&scene, "step-00000400"));
    expect(&scene, scene.folder, 100000000);
    save(&scene, 100000000, 1);
    assert_false(there(&scene, "step-00000500"));
    end(&scene);
}

TEST_IN(checkpoints, none_yet_is_told_apart, root_make, root_remove)
{
    struct scene scene;
    struct ah_checkpoints_found found;
    begin(&scene, state);
    CHECK_FAILS(ah_checkpoints_find(scene.folder, &found, &scene.err), scene.err, AH_E_IO, "does not exist");
    reopen(&scene, 0);
    root_put(scene.folder, "step-00000003.tmp/checkpoint.json.part", "");
    CHECK_OK(ah_checkpoints_find(scene.folder, &found, &scene.err), scene.err);
    assert_string_equal(found.path, "");
    CHECK_FAILS(resume(&scene, scene.folder), scene.err, AH_E_IO, "has no checkpoint in it");
    root_put(*state, "file", "");
    snprintf(scene.folder, sizeof scene.folder, "%s/file", (char *)*state);
    CHECK_FAILS(ah_checkpoints_find(scene.folder, &found, &scene.err), scene.err, AH_E_IO, "is not a folder");
    end(&scene);
}

/* Saves three steps. Step 1 is whole, step 2 has one wrong byte, and step 3 is damaged by `command`. */
static void save_damaged(struct scene *scene, const char *command)
{
    char text[PATH_MAX + 256];
    reopen(scene, 0);
    for (uint64_t step = 1; step <= 3; step++)
        save(scene, step, 0);
    snprintf(
        text, sizeof text,
        "cd '%s' && printf x | dd of=step-00000002/states.bin bs=1 seek=5000 conv=notrunc status=none && %s",
        scene->folder, command);
    assert_int_equal(system(text), 0);
    ah_checkpoints_close(scene->checkpoints);
    scene->checkpoints = NULL;
}

static const char *const damages[] = {
    "rm step-00000003/checkpoint.json",
    "truncate -s 100 step-00000003/checkpoint.json",
    "truncate -s -1 step-00000003/states.bin",
    "rm step-00000003/config.json",
    "printf x | dd of=step-00000003/states.bin bs=1 seek=5000 conv=notrunc status=none",
    "printf x | dd of=step-00000003/model.safetensors bs=1 seek=9000 conv=notrunc status=none",
    "sed -i 's/\"step\": 3/\"step\": 4/' step-00000003/checkpoint.json",
};

/* An older checkpoint replaces the newest only if all bytes of the older are right. The message says what is wrong with
 * the newest. If the user names a damaged checkpoint, no other replaces it. */
TEST_IN(checkpoints, older_whole_ones_replace_damaged_ones, root_make, root_remove)
{
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct scene scene;
        char command[PATH_MAX + 64], path[PATH_MAX + 64];
        begin(&scene, state);
        save_damaged(&scene, damages[i]);
        expect(&scene, scene.folder, 1);
        check_text_has(scene.found.damaged.text, "step-00000003");
        assert_int_equal(scene.found.newest_step, 3);
        assert_int_equal(scene.found.step, 1);
        assert_int_not_equal(resume(&scene, below(&scene, "step-00000003", path)), AH_OK);
        assert_false(scene.found.again);
        CHECK_FAILS(resume(&scene, below(&scene, "step-00000002", path)), scene.err, AH_E_DOCUMENT,
                    "step-00000002/states.bin: its sha256 differs from the manifest's");
        snprintf(command, sizeof command, "rm -r '%s'/step-00000001", scene.folder);
        assert_int_equal(system(command), 0);
        CHECK_FAILS(resume(&scene, scene.folder), scene.err, AH_E_DOCUMENT, "step-00000003");
        snprintf(command, sizeof command, "rm -r '%s'", scene.folder);
        assert_int_equal(system(command), 0);
        end(&scene);
    }
}

/* If a checkpoint is unreadable but not damaged, a person must fix that. The run does not fall back and lose steps. */
TEST_IN(checkpoints, unreadable_ones_are_not_replaced, root_make, root_remove)
{
    struct scene scene;
    char path[PATH_MAX + 64];
    begin(&scene, state);
    reopen(&scene, 0);
    save(&scene, 1, 0);
    root_put(scene.folder, "step-00000002/x", "");
    assert_int_equal(symlink("checkpoint.json", below(&scene, "step-00000002/checkpoint.json", path)), 0);
    CHECK_FAILS(resume(&scene, scene.folder), scene.err, AH_E_IO, "; the newest before it is '");
    check_text_has(scene.err.text, "/step-00000001'");
    end(&scene);
}

/* A new checkpoint takes the place of a damaged one. The damaged one's files are kept under another name. */
TEST_IN(checkpoints, damaged_ones_are_set_aside, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    save_damaged(&scene, damages[4]);
    root_put(scene.folder, "step-00000003.damaged/states.bin", "of another day");
    expect(&scene, scene.folder, 1);
    CHECK_FAILS(try_open(&scene, 1), scene.err, AH_E_MISMATCH, "has a checkpoint of step 3");
    CHECK_OK(ah_checkpoints_open(&scene.checkpoints, &scene.run.job, scene.folder, &scene.found, &scene.err),
             scene.err);
    assert_true(there(&scene, "step-00000002.damaged/states.bin"));
    assert_true(there(&scene, "step-00000003.damaged-2/states.bin"));
    assert_false(there(&scene, "step-00000003") || there(&scene, "step-00000002"));
    save(&scene, 3, 1);
    expect(&scene, scene.folder, 3);
    assert_int_equal(scene.found.damaged.code, AH_OK);
    assert_true(there(&scene, "step-00000002.damaged/states.bin"));
    end(&scene);
}

/* A folder that a run made but never saved into is removed; a folder that existed before stays. */
TEST_IN(checkpoints, no_empty_folder_is_left, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    reopen(&scene, 0);
    assert_true(there(&scene, "."));
    ah_checkpoints_close(scene.checkpoints);
    scene.checkpoints = NULL;
    assert_false(there(&scene, "."));
    assert_int_equal(mkdir(scene.folder, 0777), 0);
    reopen(&scene, 0);
    reopen(&scene, 0);
    assert_true(there(&scene, "."));
    end(&scene);
}

TEST_IN(checkpoints, later_steps_and_other_runs_are_not_saved_over, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    reopen(&scene, 0);
    save(&scene, 5, 1);
    ah_checkpoints_close(scene.checkpoints);
    scene.checkpoints = NULL;
    CHECK_FAILS(try_open(&scene, 0), scene.err, AH_E_MISMATCH, "has a checkpoint of step 5");
    CHECK_FAILS(try_open(&scene, 4), scene.err, AH_E_MISMATCH, "this run is at step 4");
    scene.run.chosen.lr = 1e-3;
    CHECK_FAILS(try_open(&scene, 5), scene.err, AH_E_MISMATCH, "its 'run.lr' is 0.0003");
    scene.run.chosen.lr = 3e-4;
    CHECK_OK(try_open(&scene, 5), scene.err);
    save(&scene, 6, 1);
    assert_false(there(&scene, "step-00000005"));
    end(&scene);
}

TEST_IN(checkpoints, one_run_at_a_time, root_make, root_remove)
{
    struct scene scene;
    struct ah_checkpoints *second = NULL;
    begin(&scene, state);
    reopen(&scene, 0);
    CHECK_FAILS(ah_checkpoints_open(&second, &scene.run.job, scene.folder, &scene.found, &scene.err),
                scene.err, AH_E_IO, "another run is saving into it");
    reopen(&scene, 0);
    end(&scene);
}

/* Opening removes files that a killed save left behind, but not files that only look similar. */
TEST_IN(checkpoints, remove_only_what_is_theirs, root_make, root_remove)
{
    static const char *const stay[] = {"step-00000002.tmp/states.bin", /* the folder has no mark of a save */
                                       "step-00000003.tmp/notes.txt",
                                       "step-00000004.tmp/checkpoint.json/deep",
                                       "step-5.tmp/config.json",
                                       "step-000000006.tmp/config.json",
                                       "step-00000007.tmp.old/checkpoint.json.part",
                                       "step-00000008.tmp",
                                       "other/checkpoint.json.part",
                                       "step-+0000009.tmp/checkpoint.json.part",
                                       "target/checkpoint.json.part"};
    struct scene scene;
    char path[PATH_MAX + 64];
    begin(&scene, state);
    reopen(&scene, 0);
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++)
        root_put(scene.folder, stay[i], "x");
    root_put(scene.folder, "step-00000003.tmp/checkpoint.json.part", "");
    assert_int_equal(symlink("target", below(&scene, "step-00000011.tmp", path)), 0);
    root_put(scene.folder, "step-00000010.tmp/checkpoint.json.part", "");
    root_put(scene.folder, "step-00000010.tmp/states-00001-of-00002.bin", "x");
    root_put(scene.folder, "step-00000010.tmp/.autohete-12-0.tmp", "x");
    root_put(scene.folder, "step-00000010.tmp/tokenizer.json", "x");
    root_put(scene.folder, "step-00000010.tmp/chat_template.jinja", "x");
    assert_int_equal(mkdir(below(&scene, "step-00000012.tmp", path), 0777), 0);
    reopen(&scene, 0);
    for (size_t i = 0; i < sizeof stay / sizeof stay[0]; i++)
        if (!there(&scene, stay[i]))
            fail_msg("'%s' is gone", stay[i]);
    assert_true(there(&scene, "step-00000011.tmp"));
    assert_false(there(&scene, "step-00000010.tmp") || there(&scene, "step-00000012.tmp"));
    end(&scene);
}

TEST_IN(checkpoints, with_other_files_in_them_are_kept, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    reopen(&scene, 0);
    save(&scene, 1, 1);
    root_put(scene.folder, "step-00000001/notes.txt", "the best one");
    save(&scene, 2, 1);
    check_text_has(scene.saved.warning, "step-00000001: is kept because it also holds other files");
    save(&scene, 3, 1);
    assert_true(there(&scene, "step-00000001/notes.txt") && there(&scene, "step-00000001/states.bin"));
    assert_false(there(&scene, "step-00000002"));
    end(&scene);
}

TEST_IN(checkpoints, folders_that_cannot_be_written_are_named, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    snprintf(scene.folder, sizeof scene.folder, "/proc/autohete");
    CHECK_FAILS(try_open(&scene, 0), scene.err, AH_E_IO, "/proc/autohete: cannot be made");
    snprintf(scene.folder, sizeof scene.folder, "%s/a/b", (char *)*state);
    CHECK_FAILS(try_open(&scene, 0), scene.err, AH_E_IO, "No such file or directory");
    root_put(*state, "file", "");
    snprintf(scene.folder, sizeof scene.folder, "%s/file", (char *)*state);
    CHECK_FAILS(try_open(&scene, 0), scene.err, AH_E_IO, "Not a directory");
    end(&scene);
}
