/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for data sets: any bytes as a file of tokens, its mask and its documents.
 *
 * The input begins with name and format (a byte each), which companion files exist (bits of a byte), and the lengths of
 * mask and documents (u16 each). The three contents follow. If a data set can be opened, all its indices are valid,
 * even after an error and after its files were changed.
 */
#include "runtime/train/data/batches.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 7, SEQ = 5, BATCH = 3, PARTS = 3, PATH = 64, FILLS = 40 };

static const uint64_t vocabulary = 300;

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_data: %s\n", what);
        abort();
    }
}

struct part {
    char path[PATH];
    const uint8_t *bytes;
    size_t size;
};

static void put(const struct part *part)
{
    int fd = open(part->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    require(fd >= 0 && write(fd, part->bytes, part->size) == (ssize_t)part->size, "no file could be written");
    close(fd);
}

/* Cuts the input into PARTS files of `folder` and writes those that the input's bits select. */
static void cut(struct part parts[PARTS], const char *folder, const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a.bin", "a.txt", "a", "a.jsonl"};
    static const char *const endings[] = {"", ".mask", ".docs"};
    const size_t lengths[] = {0, data[3] | (size_t)data[4] << 8, data[5] | (size_t)data[6] << 8};
    size_t end = size;
    for (int i = PARTS - 1; i >= 0; i--) {
        size_t rest = end - HEAD, length = i && lengths[i] < rest ? lengths[i] : rest;
        snprintf(parts[i].path, PATH, "%s/%s%s", folder, names[data[0] % 4], endings[i]);
        parts[i].bytes = data + end - length;
        parts[i].size = length;
        end -= length;
        if (!i || data[2] >> (i - 1) & 1)
            put(&parts[i]);
    }
}

static void check_rows(const struct ah_batches_rows *rows, size_t n, uint64_t bearing, int whole)
{
    uint64_t counted = 0;
    for (size_t i = 0; i < n; i++) {
        require(rows->tokens[i] < vocabulary && rows->targets[i] < vocabulary,
                "a token beyond the vocabulary");
        require(rows->positions[i] < SEQ && rows->docs[i] <= i % SEQ, "a position beyond the sequence");
        require(!whole || rows->positions[i] + rows->docs[i] == i % SEQ, "position and document disagree");
        require(rows->mask[i] <= 1, "a mask of other than 0 and 1");
        counted += rows->mask[i];
    }
    require(!whole || counted == bearing, "another count than the mask's");
}

/* Fills batches. Returns the first error. */
static int fill(struct ah_batches *batches, struct ah_error *err)
{
    uint32_t numbers[4][SEQ * BATCH] = {{0}};
    uint8_t mask[SEQ * BATCH] = {0};
    const struct ah_batches_rows rows = {numbers[0], numbers[1], mask, numbers[2], numbers[3]};
    uint64_t steps = ah_batches_steps(batches), bearing = 0;
    for (uint64_t step = 0; step < steps && step < FILLS; step++) {
        int rc = ah_batches_fill(batches, step * BATCH, BATCH, &rows, &bearing, err);
        check_rows(&rows, SEQ * BATCH, bearing, !rc);
        if (rc)
            return rc;
    }
    return AH_OK;
}

/* Reverses the file's bytes but keeps its size and modification time, so that only the content tells the change. */
static void change(const struct part *part)
{
    struct stat about;
    int fd = open(part->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about))
        return;
    for (size_t i = 0; i < part->size; i++)
        require(pwrite(fd, part->bytes + part->size - 1 - i, 1, (off_t)i) == 1, "no file could be changed");
    futimens(fd, (struct timespec[]){about.st_atim, about.st_mtim});
    close(fd);
}

static void use(struct ah_dataset *data, const struct part parts[PARTS])
{
    for (int held_out = 0; held_out < 2; held_out++) {
        struct ah_batches batches;
        struct ah_error err = {0};
        const struct ah_batches_options options = {
            .data = data, .seq = SEQ, .batch = BATCH, .seed = 1, .held_out = held_out};
        int rc = ah_batches_init(&batches, &options, &err);
        require(!rc || err.text[0], "a refusal without a sentence");
        if (rc)
            continue;
        if (!held_out)
            require(!fill(&batches, &err), "data that were checked cannot be read");
        for (int i = 0; held_out && i < PARTS; i++)
            change(&parts[i]);
        rc = fill(&batches, &err);
        require(!rc || (rc == AH_E_MISMATCH && err.text[0]), "another error than that the file changed");
        if (held_out && parts[0].size > 1 && !truncate(parts[0].path, 1))
            require(fill(&batches, &err) == AH_E_MISMATCH, "a file that was cut is read");
        ah_batches_release(&batches);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    char in_memory[] = "/dev/shm/autohete-fuzz-XXXXXX", on_disk[] = "/tmp/autohete-fuzz-XXXXXX";
    const char *folder = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
    struct part parts[PARTS];
    struct ah_dataset *opened = NULL;
    struct ah_error err = {0};
    require(folder != NULL, "no folder could be made");
    cut(parts, folder, data, size);
    const char *paths[] = {parts[0].path};
    const struct ah_dataset_options options = {
        .paths = paths,
        .n_paths = 1,
        .vocabulary = data[0] % 4 ? 256 : vocabulary, /* text needs a vocabulary of 256 */
        .format = (enum ah_dataset_format)(data[1] % AH_DATASET_FORMAT_COUNT)};
    int rc = ah_dataset_open(&opened, &options, &err);
    require(!rc || (err.text[0] && !strchr(err.text, '\n')), "not one sentence");
    if (!rc)
        use(opened, parts);
    ah_dataset_close(opened);
    for (int i = 0; i < PARTS; i++)
        unlink(parts[i].path);
    rmdir(folder);
    return 0;
}
