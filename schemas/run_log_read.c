/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a run log, line by line.
 */
#include "schemas/run_log_read.h"

#include "base/file.h"

#include <string.h>

/* The first bytes of every log that `run` writes. */
#define BEGINNING "{\"kind\":\"runlog\""

/* Returns the number of bytes up to the last newline. */
static size_t whole_lines(const struct ah_buffer *bytes)
{
    size_t size = bytes->size;
    while (size && bytes->data[size - 1] != '\n')
        size--;
    return size;
}

/* True if a log's first line can begin with this text. */
static bool is_cut_header(const char *text, size_t size)
{
    size_t length = strlen(BEGINNING);
    return memcmp(text, BEGINNING, size < length ? size : length) == 0;
}

static int parse_text(const char *path, const struct ah_buffer *bytes, struct ah_run_log_text *ret_text,
                      struct ah_error *err)
{
    const char *text = bytes->data ? bytes->data : "";
    size_t whole = whole_lines(bytes);
    int rc = bytes->size
                 ? ah_document_parse(&ret_text->document, path, text, bytes->size, AH_DOCUMENT_ANY, err)
                 : AH_OK;
    if (!rc && bytes->size) {
        ret_text->whole_bytes = bytes->size;
        ret_text->lacks_newline = whole < bytes->size;
        ret_text->begun = true;
        return AH_OK;
    }
    if (rc == AH_E_MEMORY || whole == bytes->size)
        return rc;
    if (!whole && !is_cut_header(text, bytes->size))
        return rc;
    if (whole && ah_document_parse(&ret_text->document, path, text, whole, AH_DOCUMENT_RUNLOG, NULL))
        return rc; /* the log is also wrong before its end */
    ret_text->whole_bytes = whole;
    ret_text->cut_bytes = bytes->size - whole;
    ret_text->begun = whole > 0;
    return AH_OK;
}

int ah_run_log_read(const char *path, struct ah_run_log_text *ret_text, struct ah_error *err)
{
    struct ah_buffer bytes = {0};
    *ret_text = (struct ah_run_log_text){0};
    int rc = ah_file_read(path, AH_RUN_LOG_BYTES_MAX, &bytes, err);
    if (!rc)
        rc = parse_text(path, &bytes, ret_text, err);
    ah_buffer_release(&bytes);
    if (!rc && ret_text->begun && ret_text->document.kind != AH_DOCUMENT_RUNLOG) {
        char name[AH_DOCUMENT_NAME_MAX];
        rc = ah_error_set(err, AH_E_DOCUMENT, "'%s' is a %s where a run log is expected",
                          ah_document_short_name(path, name), ah_document_word(ret_text->document.kind));
        ah_document_release(&ret_text->document);
    }
    return rc;
}

int ah_run_log_not_begun(const char *path, struct ah_error *err)
{
    char name[AH_DOCUMENT_NAME_MAX];
    return ah_error_set(err, AH_E_DOCUMENT, "%s: is empty: its run ended before the first line was complete",
                        ah_document_short_name(path, name));
}

uint64_t ah_run_log_bytes_to(const struct ah_run_log_text *text, uint64_t step)
{
    const struct ah_runlog *runlog = text->document.body.runlog;
    uint64_t done = step + 1 - runlog->first_step;
    if (done < runlog->n_steps)
        return runlog->steps[done].at_bytes;
    return runlog->end ? runlog->end->at_bytes : text->whole_bytes;
}
