/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON is checked strictly, line by line, before it is read. The prompt of Alpaca is that of its authors (prompt.py of
 * tatsu-lab/stanford_alpaca).
 */
#include "runtime/text/inputs_internal.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (UINT64_C(1) << 40)

static const char mark[] = "\xEF\xBB\xBF", replacement[] = "\xEF\xBF\xBD";

struct reading {
    struct ah_records *records;
    const char *path;
    struct ah_arena arena; /* of the record in hand */
    struct ah_buffer clean;
    uint64_t bytes;
    struct ah_error *err;
};

/* ---- UTF-8 ---- */

/* Points `text` and `size` to the text without a mark at its beginning, with U+FFFD in place of what is not UTF-8. */
static int clean_text(struct reading *reading, bool begins, const char **text, size_t *size)
{
    const char *at = *text, *end = at + *size;
    if (begins && *size >= 3 && !memcmp(at, mark, 3))
        at += 3;
    const char *kept = at;
    bool broken = false;
    ah_buffer_clear(&reading->clean);
    while (at < end) {
        const size_t letter = ah_json_utf8(at, end);
        if (letter) {
            at += letter;
            continue;
        }
        ah_buffer_append(&reading->clean, kept, (size_t)(at - kept));
        ah_buffer_puts(&reading->clean, replacement);
        reading->records->replaced++;
        broken = true;
        kept = ++at;
    }
    if (broken)
        ah_buffer_append(&reading->clean, kept, (size_t)(end - kept));
    if (reading->clean.failed)
        return ah_error_memory(reading->err);
    *text = broken ? reading->clean.data : kept;
    *size = broken ? reading->clean.size : (size_t)(end - kept);
    return AH_OK;
}

/* ---- one object ---- */

enum field { TEXT, PROMPT, COMPLETION, INSTRUCTION, INPUT, OUTPUT, MESSAGES, CONVERSATIONS, FIELDS };
static const char *const names[FIELDS] = {"text",  "prompt", "completion", "instruction",
                                          "input", "output", "messages",   "conversations"};

/* Where a record is, for messages: "file:3" or "file: [2]". */
struct place {
    uint64_t line, item;
    bool in_array;
};

static int fail(const struct reading *reading, const struct place *place, int code, const char *what)
{
    if (place->in_array)
        return ah_error_set(reading->err, code, "%s: [%llu]: %s", reading->path,
                            (unsigned long long)place->item, what);
    return ah_error_set(reading->err, code, "%s:%llu: %s", reading->path, (unsigned long long)place->line,
                        what);
}

static int read_fields(struct reading *reading, struct ah_cursor cursor, const struct place *place,
                       const char *fields[FIELDS])
{
    if (!ah_cursor_enter(&cursor, '{'))
        return fail(reading, place, AH_E_DOCUMENT, "is no JSON object");
    while (ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, &reading->arena);
        size_t field = 0;
        if (!key)
            return ah_error_memory(reading->err);
        while (field < FIELDS && strcmp(names[field], key) != 0)
            field++;
        if (field < MESSAGES && ah_cursor_peek(&cursor) == '"') {
            fields[field] = ah_cursor_text(&cursor, &reading->arena);
            if (!fields[field])
                return ah_error_memory(reading->err);
            continue;
        }
        if (field == MESSAGES || field == CONVERSATIONS)
            return fail(
                reading, place, AH_E_UNSUPPORTED,
                "is a conversation, which 'tokenize' does not read; 'autohete-tokenize' does, with the "
                "model's chat template");
        if (field < MESSAGES && ah_cursor_peek(&cursor) != 'n') {
            char what[64];
            snprintf(what, sizeof what, "'%s' is no text", names[field]);
            return fail(reading, place, AH_E_DOCUMENT, what);
        }
        ah_cursor_skip(&cursor);
    }
    return AH_OK;
}

static struct ah_record_part part_of(const char *text, bool learned)
{
    return (struct ah_record_part){text, strlen(text), learned};
}

static const char *alpaca(struct reading *reading, const char *instruction, const char *input)
{
    const bool given = input && *input;
    struct ah_buffer text = {0};
    ah_buffer_puts(
        &text, given ? "Below is an instruction that describes a task, paired with an input that provides "
                       "further context. Write a response that appropriately completes the request."
                     : "Below is an instruction that describes a task. Write a response that appropriately "
                       "completes the request.");
    ah_buffer_printf(&text, "\n\n### Instruction:\n%s\n\n", instruction);
    if (given)
        ah_buffer_printf(&text, "### Input:\n%s\n\n", input);
    ah_buffer_puts(&text, "### Response:\n");
    const char *kept = text.failed ? NULL : ah_arena_strdup(&reading->arena, text.data);
    ah_buffer_release(&text);
    return kept;
}

static int take_object(struct reading *reading, struct ah_cursor cursor, const struct place *place)
{
    const char *fields[FIELDS] = {NULL};
    struct ah_record record = {.n = 2};
    int rc = read_fields(reading, cursor, place, fields);
    if (rc)
        return rc;
    if (fields[TEXT]) {
        record = (struct ah_record){.parts = {part_of(fields[TEXT], true)}, .n = 1};
    } else if (fields[PROMPT] && fields[COMPLETION]) {
        record.parts[0] = part_of(fields[PROMPT], false);
        record.parts[1] = part_of(fields[COMPLETION], true);
    } else if (fields[INSTRUCTION] && fields[OUTPUT]) {
        const char *prompt = alpaca(reading, fields[INSTRUCTION], fields[INPUT]);
        if (!prompt)
            return ah_error_memory(reading->err);
        record.parts[0] = part_of(prompt, false);
        record.parts[1] = part_of(fields[OUTPUT], true);
    } else {
        return fail(reading, place, AH_E_DOCUMENT,
                    "has neither 'text', nor 'prompt' and 'completion', nor 'instruction' and 'output'");
    }
    rc = reading->records->take(reading->records->context, &record, reading->bytes, reading->err);
    ah_arena_release(&reading->arena);
    return rc;
}

/* ---- files ---- */

static int take_line(struct reading *reading, const char *line, size_t size, uint64_t number)
{
    int rc = clean_text(reading, number == 1, &line, &size);
    if (rc || strspn(line, " \t\r\n") >= size)
        return rc;
    const struct ah_json_source source = {reading->path, line, size, number};
    rc = ah_json_scan(&source, reading->err);
    return rc ? rc
              : take_object(reading, (struct ah_cursor){line, line + size}, &(struct place){.line = number});
}

static int fail_file(const struct reading *reading)
{
    return ah_error_set(reading->err, AH_E_IO, "%s: cannot be read: %s", reading->path, strerror(errno));
}

static int read_lines(struct reading *reading)
{
    FILE *file = fopen(reading->path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    int rc = file ? AH_OK : fail_file(reading);
    for (uint64_t number = 1; !rc && (errno = 0, size = getline(&line, &room, file)) >= 0; number++) {
        reading->bytes += (uint64_t)size;
        rc = take_line(reading, line, (size_t)size, number);
    }
    if (!rc && file && ferror(file))
        rc = fail_file(reading);
    free(line);
    if (file)
        fclose(file);
    return rc;
}

/* Reads a file that is one array of objects. */
static int read_array(struct reading *reading, const char *text, size_t size)
{
    const struct ah_json_source source = {reading->path, text, size, 1};
    struct ah_cursor cursor = {text, text + size};
    struct place place = {.in_array = true};
    int rc = ah_json_scan(&source, reading->err);
    if (!rc)
        ah_cursor_enter(&cursor, '[');
    for (; !rc && ah_cursor_next(&cursor, ']'); place.item++) {
        const struct ah_cursor item = cursor;
        ah_cursor_skip(&cursor);
        reading->bytes = (uint64_t)(cursor.at - text);
        rc = take_object(reading, item, &place);
    }
    return rc;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path), end = strlen(ending);
    return length >= end && !strcmp(path + length - end, ending);
}

static bool begins_array(const char *path)
{
    char begin[4096] = "";
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if (file)
        fclose(file);
    const size_t at = strspn(begin, "\xEF\xBB\xBF \t\r\n");
    return at < n && begin[at] == '[';
}

static int read_whole(struct reading *reading, bool array)
{
    struct ah_buffer whole = {0};
    int rc = ah_file_check_regular(reading->path, reading->err);
    rc = rc ? rc : ah_file_read(reading->path, FILE_MOST, &whole, reading->err);
    const char *text = whole.data ? whole.data : "";
    size_t size = whole.size;
    rc = rc ? rc : clean_text(reading, true, &text, &size);
    if (!rc && array) {
        rc = read_array(reading, text, size);
    } else if (!rc && size) {
        const struct ah_record record = {.parts = {{text, size, true}}, .n = 1, .is_text = true};
        reading->bytes = whole.size;
        rc = reading->records->take(reading->records->context, &record, reading->bytes, reading->err);
    }
    ah_buffer_release(&whole);
    return rc;
}

int ah_records_read(struct ah_records *records, const char *path, struct ah_error *err)
{
    struct reading reading = {.records = records, .path = path, .err = err};
    const bool json = ends_in(path, ".json");
    const bool array = json && begins_array(path);
    int rc = !array && (json || ends_in(path, ".jsonl") || ends_in(path, ".ndjson"))
                 ? read_lines(&reading)
                 : read_whole(&reading, array);
    ah_arena_release(&reading.arena);
    ah_buffer_release(&reading.clean);
    return rc;
}
