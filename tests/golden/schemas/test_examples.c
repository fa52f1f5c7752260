/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that every example is accepted without a warning that matters, and that reading and printing its canonical text
 * gives the same bytes. Examples of our own kinds are committed as canonical texts.
 */
#include "base/file.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

static void print(const struct ah_document *document, struct ah_buffer *out)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_print(document, out, &err), err);
}

static void check_example(const char *path)
{
    struct ah_document document, again;
    struct ah_buffer file = {0}, first = {0}, second = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_document_load(&document, path, AH_DOCUMENT_ANY, &err), err);
    CHECK_OK(ah_file_read(path, 1 << 20, &file, &err), err);
    print(&document, &first);
    CHECK_OK(ah_document_parse(&again, path, first.data, first.size, document.kind, &err), err);
    print(&again, &second);
    assert_string_equal(first.data, second.data);
    assert_int_equal(ah_document_diff(&document, &again, NULL, NULL), 0);
    if (strstr(file.data, "\"kind\"") && strcmp(file.data, first.data) != 0)
        fail_msg("%s is not in canonical form", path);
    ah_buffer_release(&file);
    ah_buffer_release(&first);
    ah_buffer_release(&second);
    ah_document_release(&document);
    ah_document_release(&again);
}

static size_t check_all(const char *pattern)
{
    glob_t found;
    size_t n = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (n = 0; n < found.gl_pathc; n++)
            check_example(found.gl_pathv[n]);
        globfree(&found);
    }
    return n;
}

TEST(examples, are_accepted_and_canonical)
{
    assert_true(check_all("examples/models/*.json") >= 21);
    assert_true(check_all("examples/machines/*.json") >= 13);
    assert_true(check_all("examples/clusters/*.json") >= 5);
    assert_true(check_all("examples/recovery/*.json") >= 3);
    assert_true(check_all("tests/golden/schemas/documents/*") >= 9);
}
