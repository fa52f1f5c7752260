/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that a log cut at any byte is read up to its last whole line, and that a run can be resumed from any step in
 * the log.
 */
#include "schemas/run_log_read.h"

#include "base/file.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PATH "tests/golden/schemas/documents/runlog.ndjson"

struct scene {
    struct ah_buffer whole; /* the complete log */
    char path[PATH_MAX];    /* path of the part that is read */
    struct ah_run_log_text text;
    struct ah_error err;
};

static void begin(struct scene *scene, void **state)
{
    memset(scene, 0, sizeof *scene);
    CHECK_OK(ah_file_read(PATH, 1 << 20, &scene->whole, &scene->err), scene->err);
    snprintf(scene->path, sizeof scene->path, "%s/log", (char *)*state);
}

static int read_part(struct scene *scene, const char *bytes, size_t size)
{
    FILE *file = fopen(scene->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return ah_run_log_read(scene->path, &scene->text, &scene->err);
}

/* Returns the number of whole lines in the first `size` bytes. A last line without its newline counts as whole. */
static size_t whole_lines(const struct scene *scene, size_t size, size_t *ret_bytes)
{
    size_t n = 0, at = 0;
    *ret_bytes = 0;
    while (at < size) {
        const char *newline = memchr(scene->whole.data + at, '\n', scene->whole.size - at);
        size_t end = (size_t)(newline - scene->whole.data);
        if (size < end)
            break;
        n++;
        at = end + 1;
        *ret_bytes = size < at ? size : at;
    }
    return n;
}

static size_t lines_in(const struct ah_runlog *runlog)
{
    return 1 + runlog->n_steps + runlog->n_evaluations + runlog->n_saves + runlog->n_samples +
           runlog->n_resumes + (runlog->end ? 1 : 0);
}

TEST_IN(run_log_read, takes_a_log_that_is_cut_at_any_byte, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    for (size_t size = 0; size <= scene.whole.size; size++) {
        size_t bytes, lines = whole_lines(&scene, size, &bytes);
        CHECK_OK(read_part(&scene, scene.whole.data, size), scene.err);
        assert_int_equal(scene.text.begun, lines > 0);
        assert_int_equal(scene.text.whole_bytes, bytes);
        assert_int_equal(scene.text.cut_bytes, size - bytes);
        assert_int_equal(scene.text.lacks_newline, bytes && scene.whole.data[bytes - 1] != '\n');
        if (lines)
            assert_int_equal(lines_in(scene.text.document.body.runlog), lines);
        ah_document_release(&scene.text.document);
    }
    ah_buffer_release(&scene.whole);
}

/* The bytes before any step, and those before the end line, are a log from which a run can be resumed. */
TEST_IN(run_log_read, finds_where_a_run_goes_on, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    CHECK_OK(read_part(&scene, scene.whole.data, scene.whole.size), scene.err);
    const struct ah_runlog *runlog = scene.text.document.body.runlog;
    assert_true(runlog->n_steps >= 2 && runlog->end);
    for (size_t i = 0; i <= runlog->n_steps; i++) {
        struct scene part;
        begin(&part, state);
        uint64_t bytes = ah_run_log_bytes_to(&scene.text, runlog->first_step + i - 1);
        CHECK_OK(read_part(&part, part.whole.data, bytes), part.err);
        assert_int_equal(part.text.document.body.runlog->n_steps, i);
        assert_null(part.text.document.body.runlog->end);
        assert_int_equal(part.text.cut_bytes, 0);
        ah_document_release(&part.text.document);
        ah_buffer_release(&part.whole);
    }
    ah_document_release(&scene.text.document);
    ah_buffer_release(&scene.whole);
}

/* An error before the last line is no cut. A file that is not a log does not count as the beginning of one. */
TEST_IN(run_log_read, refuses_what_is_no_cut, root_make, root_remove)
{
    struct scene scene;
    begin(&scene, state);
    const char *others[] = {"{\"kind\": \"model\", \"form", "before\n", "x", "[1, 2]", "{\"kind\":\"plan\""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_FAILS(read_part(&scene, others[i], strlen(others[i])), scene.err, AH_E_DOCUMENT, "log");
    memset(strchr(scene.whole.data, '\n') + 5, ' ', 20);
    CHECK_FAILS(read_part(&scene, scene.whole.data, scene.whole.size - 9), scene.err, AH_E_DOCUMENT,
                "log: line 2: ");
    CHECK_FAILS(ah_run_log_read("nowhere", &scene.text, &scene.err), scene.err, AH_E_IO, "nowhere");
    ah_buffer_release(&scene.whole);
}
