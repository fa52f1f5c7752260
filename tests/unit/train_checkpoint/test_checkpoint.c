/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests one checkpoint. Loading gives the saved bits. If a file was changed, loading fails and names the file or field.
 */
#include "runtime/train/checkpoint/checkpoint_folder.h"

#include "schemas/checkpoint.h"
#include "tests/support/documents.h"
#include "tests/support/root.h"
#include "tests/support/training.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char path_text[PATH_MAX];

/* "ROOT/c/NAME" */
static const char *in(const char *root, const char *name)
{
    snprintf(path_text, sizeof path_text, "%s/c/%s", root, name);
    return path_text;
}

static void save(struct training *run, const char *root, uint64_t step)
{
    char path[PATH_MAX];
    struct ah_error err = {0};
    snprintf(path, sizeof path, "%s/c", root);
    CHECK_OK(ah_checkpoint_save(&run->job, training_at(run, step), &run->source, path, &err), err);
}

static int load(struct training *run, const char *root, struct ah_error *err)
{
    char path[PATH_MAX];
    struct ah_checkpoint_position position = {0};
    snprintf(path, sizeof path, "%s/c", root);
    int rc = ah_checkpoint_load(&run->job, &run->sink, path, &position, err);
    if (!rc)
        assert_memory_equal(&position, &run->position, sizeof position);
    return rc;
}

static void run_command(const char *format, ...) AH_PRINTF(1, 2);

static void run_command(const char *format, ...)
{
    char command[3 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

TEST_IN(checkpoint, comes_back_bit_for_bit, root_make, root_remove)
{
    static const struct training_options cases[] = {
        {AH_FP32, AH_FP32, 0, NULL, 0, 0},
        {AH_BF16, AH_FP32, 0, NULL, 0, 0},
        {AH_BF16, AH_BF16, 0, NULL, 20000, 0},
        {AH_FP32, AH_BF16, 0, "!layer.0.*", 1, 0},
        {AH_BF16, AH_FP32, 0, "!embedding.*", 30000, 0},
        {AH_BF16, AH_BF16, 60000, NULL, 0, 0}, /* a vector has several pieces */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct training run;
        struct ah_error err = {0};
        training_init(&run, &cases[i]);
        save(&run, *state, 7 + i);
        CHECK_OK(load(&run, *state, &err), err);
        assert_string_equal(training_wrong(&run, 7 + i), "");
        run_command("rm -r '%s'", in(*state, ""));
        training_release(&run);
    }
}

/* One owner or several write equal files, including manifest and digests. One owner or several can read them. */
TEST_IN(checkpoint, of_several_owners_is_that_of_one, root_make, root_remove)
{
    static const struct training_options cases[] = {
        {AH_FP32, AH_FP32, 0, NULL, 0, 2},
        {AH_BF16, AH_BF16, 0, NULL, 20000, 3},
        {AH_FP32, AH_BF16, 0, "!layer.0.*", 1, 4}, /* one owner has only frozen blocks */
        {AH_BF16, AH_FP32, 60000, "!embedding.*", 30000, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct training run;
        struct ah_error err = {0};
        training_init(&run, &cases[i]);
        const struct ah_checkpoint_together *saving = run.source.together, *loading = run.sink.together;
        save(&run, *state, 7 + i);
        run_command("mv '%s' '%s/together'", in(*state, ""), (char *)*state);
        run.source.together = NULL;
        save(&run, *state, 7 + i);
        run_command("diff -r '%s' '%s/together'", in(*state, ""), (char *)*state);
        run.source.together = saving;
        for (unsigned k = 0; k < 2; k++) {
            run.sink.together = k ? NULL : loading;
            CHECK_OK(load(&run, *state, &err), err);
            assert_string_equal(training_wrong(&run, 7 + i), "");
        }
        run_command("rm -r '%s' '%s/together'", in(*state, ""), (char *)*state);
        training_release(&run);
    }
}

/* Compares the manifest's offsets with the bytes of the files, and its sizes and digests with sha256sum's output. */
TEST_IN(checkpoint, says_where_everything_is, root_make, root_remove)
{
    struct training run;
    struct ah_document manifest;
    training_init(&run,
                  &(struct training_options){.dtype = AH_BF16, .state_dtype = AH_BF16, .file_bytes = 20000});
    save(&run, *state, 3);
    load_document(&manifest, in(*state, "checkpoint.json"), AH_DOCUMENT_CHECKPOINT);
    const struct ah_checkpoint *body = manifest.body.checkpoint;
    assert_int_equal(body->n_states, TRAINING_BLOCKS);
    assert_true(body->n_files > 5);
    for (size_t i = 0; i < body->n_states; i++) {
        const struct ah_checkpoint_state *row = &body->states[i];
        const uint64_t offsets[] = {row->master_offset_bytes, row->m_offset_bytes, row->v_offset_bytes};
        FILE *file = fopen(in(*state, row->file), "rb");
        assert_non_null(file);
        assert_int_equal(row->count, run.flat[row->block].trained_elements);
        for (uint64_t v = 0; v < 3; v++)
            for (uint64_t k = 0; k < row->count; k += row->count - 1) {
                uint32_t expected = training_bits(3, row->block, v, k), has = 0;
                assert_int_equal(fseek(file, (long)(offsets[v] + k * (v ? 2 : 4)), SEEK_SET), 0);
                assert_int_equal(fread(&has, v ? 2 : 4, 1, file), 1);
                assert_int_equal(has, v ? expected >> 16 : expected);
            }
        fclose(file);
    }
    for (size_t i = 0; i < body->n_files; i++) {
        struct stat about;
        assert_int_equal(stat(in(*state, body->files[i].name), &about), 0);
        assert_int_equal(about.st_size, body->files[i].bytes);
        run_command("echo '%s  %s' | sha256sum -c --status", body->files[i].sha256,
                    in(*state, body->files[i].name));
    }
    ah_document_release(&manifest);
    training_release(&run);
}

TEST_IN(checkpoint, is_weights_for_others, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    char folder[PATH_MAX];
    training_init(&run, &(struct training_options){.dtype = AH_BF16});
    save(&run, *state, 3);
    snprintf(folder, sizeof folder, "%s/c", (char *)*state);
    CHECK_OK(ah_weights_load(run.job.model, folder, &run.sink.weights, &err), err);
    assert_int_equal(run.n_taken[1][3], run.flat[1].parameters);
    run_command("grep -q qwen3 '%s'", in(*state, "config.json"));
    training_release(&run);
}

TEST_IN(checkpoint, of_another_run_is_refused_by_field, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    training_init(&run, &(struct training_options){0});
    save(&run, *state, 3);
    run.chosen.seed = 43;
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_MISMATCH, "its 'run.seed' is 42, this run's is 43");
    run.chosen.seed = 42;
    run.signature.dtype = AH_BF16;
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_MISMATCH, "its 'dtype' is fp32, this run's is bf16");
    run.signature.dtype = AH_FP32;
    run.patterns[0] = "layer.*";
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_MISMATCH, "its 'trainable' differs");
    run.patterns[0] = "*";
    CHECK_OK(load(&run, *state, &err), err);
    training_release(&run);
}

/* Flips one bit at the beginning, middle and end of each file in turn. Loading must fail each time. */
static void change_every_file(void **state, unsigned owners)
{
    static const char *const names[] = {
        "states-00001-of-00004.bin",        "states-00003-of-00004.bin",
        "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",     "config.json"};
    struct training run;
    struct ah_error err = {0};
    training_init(&run, &(struct training_options){.file_bytes = 30000, .owners = owners});
    save(&run, *state, 3);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int part = 0; part < 3; part++) {
            struct stat about;
            unsigned char byte;
            int fd = open(in(*state, names[i]), O_RDWR);
            assert_true(fd >= 0 && !fstat(fd, &about));
            off_t at = part == 2 ? about.st_size - 1 : part * about.st_size / 2;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, names[i]);
            check_text_has(err.text, "sha256");
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            close(fd);
        }
    CHECK_OK(load(&run, *state, &err), err);
    training_release(&run);
    run_command("rm -r '%s'", in(*state, ""));
}

/* Data read by several owners is hashed after reading. So one owner and several are both tested. */
TEST_IN(checkpoint, with_one_bit_changed_is_refused_by_file, root_make, root_remove)
{
    change_every_file(state, 0);
    change_every_file(state, 3);
}

TEST_IN(checkpoint, with_files_cut_missing_or_swapped_is_refused_by_file, root_make, root_remove)
{
    static const char *const names[] = {"states.bin", "model.safetensors", "config.json"};
    struct training run;
    struct ah_error err = {0};
    char aside[PATH_MAX];
    training_init(&run, &(struct training_options){0});
    save(&run, *state, 3);
    snprintf(aside, sizeof aside, "%s/aside", (char *)*state);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        run_command("cp '%s' '%s'", in(*state, names[i]), aside);
        run_command("truncate -s -1 '%s'", in(*state, names[i]));
        CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "bytes but the manifest says");
        check_text_has(err.text, names[i]);
        assert_int_equal(unlink(in(*state, names[i])), 0);
        CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "is missing");
        check_text_has(err.text, names[i]);
        assert_int_equal(mkfifo(in(*state, names[i]), 0600), 0);
        CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "is not a regular file");
        assert_int_equal(unlink(in(*state, names[i])), 0);
        run_command("cp '%s' '%s'", aside, in(*state, names[i]));
    }
    CHECK_OK(load(&run, *state, &err), err);
    training_release(&run);
}

/* Swaps the two files with the layers' states, which have equal sizes. */
TEST_IN(checkpoint, with_equal_files_swapped_is_refused, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    char other[PATH_MAX];
    training_init(&run, &(struct training_options){.file_bytes = 1});
    save(&run, *state, 3);
    snprintf(other, sizeof other, "%s", in(*state, "states-00003-of-00004.bin"));
    run_command("cd '%s' && mv states-00002-of-00004.bin x", in(*state, ""));
    assert_int_equal(rename(other, in(*state, "states-00002-of-00004.bin")), 0);
    run_command("cd '%s' && mv x states-00003-of-00004.bin", in(*state, ""));
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "states-00002-of-00004.bin: its sha256");
    training_release(&run);
}

/* Changes a number in the manifest. Only the manifest's sha256 protects this number. */
TEST_IN(checkpoint, manifest_is_known_by_its_sha256, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    training_init(&run, &(struct training_options){0});
    save(&run, *state, 3);
    run_command("sed -i 's/\"tokens\": [0-9]*/&1/' '%s'", in(*state, "checkpoint.json"));
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "sha256: does not match this document");
    training_release(&run);
}

/* The manifest has no sha256 and makes false claims, with files that fit the claims. It must be refused. */
TEST_IN(checkpoint, hostile_manifests_are_refused, root_make, root_remove)
{
    static const struct {
        const char *edit, *says;
    } cases[] = {
        {"s/\"block\": 2/\"block\": 1/", "states[2].block: is 1 but this model's states need 2"},
        {"s/\"count\": 128,/\"count\": 256,/", "v_offset_bytes"},
        {"s/\"master_offset_bytes\": 0,/\"master_offset_bytes\": 512,/", "states[0].master_offset_bytes"},
        {"0,/\"m_offset_bytes\": [0-9]*/s//\"m_offset_bytes\": 0/", "states[0].m_offset_bytes"},
        {"s/\"file\": \"states.bin\"/\"file\": \"..\\/states.bin\"/", "states[0].file"},
        {"s/\"name\": \"states.bin\"/\"name\": \"\\/etc\\/passwd\"/", "files[0].name"},
        {"s/\"step\": 3/\"step\": -3/", "step"},
        {"s/\"kind\": \"checkpoint\"/\"kind\": \"plan\"/", "kind"},
        {"/\"count\"/,$s/\"state_dtype\": \"fp32\"/\"state_dtype\": \"bf16\"/", "states[0].state_dtype"},
        {"s/\"trainable\": \\[\"\\*\"\\]/\"trainable\": [\"layer.*\"]/", "'trainable' differs"},
        {"/\"states\"/,$d", "checkpoint.json"},
        {"1,$d", "checkpoint.json"},
    };
    struct training run;
    struct ah_error err = {0};
    char aside[PATH_MAX];
    training_init(&run, &(struct training_options){0});
    save(&run, *state, 3);
    snprintf(aside, sizeof aside, "%s/aside", (char *)*state);
    run_command("cp '%s' '%s'", in(*state, "checkpoint.json"), aside);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_command("sed -i -e '/^  \"sha256\"/d' -e '%s' '%s'", cases[i].edit,
                    in(*state, "checkpoint.json"));
        int rc = load(&run, *state, &err);
        if (rc != AH_E_DOCUMENT && rc != AH_E_MISMATCH)
            fail_msg("case %zu: returned %d", i, rc);
        check_text_has(err.text, cases[i].says);
        run_command("cp '%s' '%s'", aside, in(*state, "checkpoint.json"));
    }
    CHECK_OK(load(&run, *state, &err), err);
    training_release(&run);
}

/* Readers prefer model.safetensors to an index of several files. */
TEST_IN(checkpoint, with_strange_weights_is_refused, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    training_init(&run, &(struct training_options){.file_bytes = 30000});
    save(&run, *state, 3);
    root_put(*state, "c/notes.txt", "mine");
    CHECK_OK(load(&run, *state, &err), err);
    root_put(*state, "c/model.safetensors", "");
    CHECK_FAILS(load(&run, *state, &err), err, AH_E_DOCUMENT, "is not in the checkpoint's manifest");
    training_release(&run);
}

static int refuse_piece(void *context, const struct ah_checkpoint_piece *piece, void *ret_values,
                        struct ah_error *err)
{
    (void)ret_values;
    return piece->block == 2 ? ah_error_set(err, AH_E_NUMERIC, "not now")
                             : training_give(context, piece, ret_values, err);
}

TEST_IN(checkpoint, save_hands_on_failures_and_leaves_nothing, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    char path[PATH_MAX];
    training_init(&run, &(struct training_options){0});
    snprintf(path, sizeof path, "%s/c", (char *)*state);
    run.source.give = refuse_piece;
    CHECK_FAILS(ah_checkpoint_save(&run.job, training_at(&run, 1), &run.source, path, &err), err,
                AH_E_NUMERIC, "not now");
    assert_int_equal(rmdir(*state), 0); /* the folder is empty */
    CHECK_FAILS(ah_checkpoint_save(&run.job, training_at(&run, 1), &run.source, path, &err), err, AH_E_IO,
                "No such file");
    assert_int_equal(mkdir(*state, 0777), 0);
    training_release(&run);
}

TEST_IN(checkpoint, save_overwrites_nothing, root_make, root_remove)
{
    struct training run;
    struct ah_error err = {0};
    char path[PATH_MAX];
    training_init(&run, &(struct training_options){0});
    snprintf(path, sizeof path, "%s/c", (char *)*state);
    root_put(*state, "c/mine.txt", "mine");
    CHECK_FAILS(ah_checkpoint_save(&run.job, training_at(&run, 1), &run.source, path, &err), err, AH_E_IO,
                "exists already");
    run_command("mv '%s' '%s.tmp'", path, path);
    CHECK_FAILS(ah_checkpoint_save(&run.job, training_at(&run, 1), &run.source, path, &err), err, AH_E_IO,
                "was not left by a save");
    run_command("test -f '%s.tmp/mine.txt'", path);
    training_release(&run);
}
