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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define FILE_MOST (UINT64_C(1) << 40)

static const char mark[] = "\xEF\xBB\xBF", replacement[] = "\xEF\xBF\xBD";

enum { PLACE_MAX = 4200 };

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

enum field {
    TEXT,
    PROMPT,
    COMPLETION,
    INSTRUCTION,
    INPUT,
    OUTPUT,
    SYSTEM,
    TOOLS,
    HISTORY,
    MESSAGES,
    CONVERSATIONS,
    FIELDS
};
static const char *const names[FIELDS] = {"text",    "prompt",   "completion",   "instruction",
                                          "input",   "output",   "system",       "tools",
                                          "history", "messages", "conversations"};

/* The fields of an object: texts, or where lists begin. */
struct fields {
    const char *texts[TOOLS];
    struct ah_cursor lists[FIELDS];
};

int ah_records_fail(const struct ah_record_source *source, int code, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return ah_error_set(source->err, code, "%s: %s", source->place, what);
}

static int read_fields(const struct ah_record_source *source, struct ah_cursor cursor, struct fields *fields)
{
    if (!ah_cursor_enter(&cursor, '{'))
        return ah_records_fail(source, AH_E_DOCUMENT, "is no JSON object");
    while (ah_cursor_next(&cursor, '}')) {
        const char *key = ah_cursor_key(&cursor, source->arena);
        size_t field = 0;
        if (!key)
            return ah_error_memory(source->err);
        while (field < FIELDS && strcmp(names[field], key) != 0)
            field++;
        const char begin = ah_cursor_peek(&cursor);
        if (field < TOOLS && begin == '"') {
            fields->texts[field] = ah_cursor_text(&cursor, source->arena);
            if (!fields->texts[field])
                return ah_error_memory(source->err);
            continue;
        }
        if (field < SYSTEM && begin != 'n')
            return ah_records_fail(source, AH_E_DOCUMENT, "'%s' is no text", names[field]);
        if (field < FIELDS && begin != 'n')
            fields->lists[field] = cursor;
        ah_cursor_skip(&cursor);
    }
    return AH_OK;
}

static int read_conversation(const struct ah_record_source *source, const struct fields *fields,
                             struct ah_record *ret_record)
{
    struct ah_cursor tools = fields->lists[TOOLS];
    if (tools.at && ah_cursor_enter(&tools, '[') && ah_cursor_next(&tools, ']'))
        return ah_records_fail(
            source, AH_E_UNSUPPORTED,
            "has 'tools', which 'tokenize' does not support; write the record as prompt and "
            "completion");
    const enum field list = fields->lists[MESSAGES].at ? MESSAGES : CONVERSATIONS;
    return ah_conversation_read(source, fields->lists[list], fields->texts[SYSTEM], ret_record);
}

/* Refuses what a prompt has no place for: it would be lost. */
static int check_prompt(const struct ah_record_source *source, const struct fields *fields)
{
    struct ah_cursor history = fields->lists[HISTORY];
    const bool system = fields->texts[SYSTEM] && *fields->texts[SYSTEM];
    if (!system && !(history.at && (!ah_cursor_enter(&history, '[') || ah_cursor_next(&history, ']'))))
        return AH_OK;
    return ah_records_fail(source, AH_E_UNSUPPORTED,
                           "has '%s' beside a prompt, which would be lost; write the record as 'messages'",
                           names[system ? SYSTEM : HISTORY]);
}

static struct ah_record_part part_of(const char *text, bool learned)
{
    return (struct ah_record_part){text, strlen(text), learned};
}

static const char *alpaca(struct ah_arena *arena, const char *instruction, const char *input)
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
    const char *kept = text.failed ? NULL : ah_arena_strdup(arena, text.data);
    ah_buffer_release(&text);
    return kept;
}

static int read_record(const struct ah_record_source *source, struct ah_cursor cursor,
                       struct ah_record *ret_record)
{
    struct fields fields = {0};
    const char *const *texts = fields.texts;
    int rc = read_fields(source, cursor, &fields);
    if (rc)
        return rc;
    *ret_record = (struct ah_record){.n = 2};
    if (texts[TEXT]) {
        ret_record->parts[0] = part_of(texts[TEXT], true);
        ret_record->n = 1;
    } else if (texts[PROMPT] && texts[COMPLETION]) {
        rc = check_prompt(source, &fields);
        ret_record->parts[0] = part_of(texts[PROMPT], false);
        ret_record->parts[1] = part_of(texts[COMPLETION], true);
    } else if (texts[INSTRUCTION] && texts[OUTPUT]) {
        const char *prompt = alpaca(source->arena, texts[INSTRUCTION], texts[INPUT]);
        if (!prompt)
            return ah_error_memory(source->err);
        ret_record->parts[0] = part_of(prompt, false);
        ret_record->parts[1] = part_of(texts[OUTPUT], true);
        rc = check_prompt(source, &fields);
    } else if (fields.lists[MESSAGES].at || fields.lists[CONVERSATIONS].at) {
        return read_conversation(source, &fields, ret_record);
    } else {
        return ah_records_fail(source, AH_E_DOCUMENT,
                               "has neither 'text', nor 'prompt' and 'completion', nor 'messages', nor "
                               "'conversations', nor 'instruction' and 'output'");
    }
    return rc;
}

/* Takes the object at the cursor: the line, or the item of an array. */
static int take_object(struct reading *reading, struct ah_cursor cursor, uint64_t number, bool in_array)
{
    char place[PLACE_MAX];
    const struct ah_record_source source = {place, &reading->arena, reading->err};
    struct ah_record record;
    snprintf(place, sizeof place, "%s:%s%llu%s", reading->path, in_array ? " [" : "",
             (unsigned long long)number, in_array ? "]" : "");
    int rc = read_record(&source, cursor, &record);
    record.place = place;
    rc = rc ? rc : reading->records->take(reading->records->context, &record, reading->bytes, reading->err);
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
    return rc ? rc : take_object(reading, (struct ah_cursor){line, line + size}, number, false);
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
    uint64_t number = 0;
    int rc = ah_json_scan(&source, reading->err);
    if (!rc)
        ah_cursor_enter(&cursor, '[');
    for (; !rc && ah_cursor_next(&cursor, ']'); number++) {
        const struct ah_cursor item = cursor;
        ah_cursor_skip(&cursor);
        reading->bytes = (uint64_t)(cursor.at - text);
        rc = take_object(reading, item, number, true);
    }
    return rc;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t length = strlen(path), end = strlen(ending);
    return length >= end && !strcasecmp(path + length - end, ending);
}

/* The first bytes of a file. */
struct beginning {
    char bytes[4096];
    size_t n;
};

/* Reads the first bytes of a regular file; none of others, from which they would be gone. */
static void look(const char *path, struct beginning *ret_beginning)
{
    struct stat about;
    FILE *file = !stat(path, &about) && S_ISREG(about.st_mode) ? fopen(path, "re") : NULL;
    ret_beginning->n = file ? fread(ret_beginning->bytes, 1, sizeof ret_beginning->bytes, file) : 0;
    if (file)
        fclose(file);
}

/* Returns the first byte that is no space and no mark; 0: there is none. */
static char first_of(const struct beginning *beginning)
{
    size_t at = beginning->n >= 3 && !memcmp(beginning->bytes, mark, 3) ? 3 : 0;
    while (at < beginning->n && memchr(" \t\r\n", beginning->bytes[at], 4))
        at++;
    return at < beginning->n ? beginning->bytes[at] : '\0';
}

/* Refuses files that are neither text nor JSON, by their first bytes, and JSON and tables by what they are named. */
static int check_kind(const struct reading *reading, const struct beginning *beginning, bool json)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } others[] = {{"PAR1", 4, "is a Parquet table; export it as lines of JSON"},
                  {"\x1f\x8b", 2, "is compressed (gzip); unpack it"},
                  {"\x28\xb5\x2f\xfd", 4, "is compressed (zstd); unpack it"},
                  {"\xfd\x37zXZ", 5, "is compressed (xz); unpack it"},
                  {"BZh", 3, "is compressed (bzip2); unpack it"},
                  {"PK\3\4", 4, "is an archive (zip); unpack it"},
                  {"\xff\xfe", 2, "is UTF-16; convert it to UTF-8 ('iconv -f UTF-16 -t UTF-8')"},
                  {"\xfe\xff", 2, "is UTF-16; convert it to UTF-8 ('iconv -f UTF-16 -t UTF-8')"}};
    const char *what = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && !what; i++)
        if (beginning->n >= others[i].n && !memcmp(beginning->bytes, others[i].bytes, others[i].n))
            what = others[i].what;
    if (!what && memchr(beginning->bytes, '\0', beginning->n))
        what = "holds bytes of value 0, so it is no text";
    if (!what && !json && (ends_in(reading->path, ".csv") || ends_in(reading->path, ".tsv")))
        what = "is a table; export it as lines of JSON, or rename it to end in .txt to train on its text";
    if (!what && !json && first_of(beginning) == '{')
        what = "begins like JSON, but its name does not end in .jsonl or .json; rename it";
    return what ? ah_error_set(reading->err, AH_E_DOCUMENT, "%s: %s", reading->path, what) : AH_OK;
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
        const struct ah_record record = {
            .parts = {{text, size, true}}, .n = 1, .is_text = true, .place = reading->path};
        reading->bytes = whole.size;
        rc = reading->records->take(reading->records->context, &record, reading->bytes, reading->err);
    }
    ah_buffer_release(&whole);
    return rc;
}

int ah_records_read(struct ah_records *records, const char *path, struct ah_error *err)
{
    struct reading reading = {.records = records, .path = path, .err = err};
    struct beginning beginning;
    const bool one = ends_in(path, ".json"),
               json = one || ends_in(path, ".jsonl") || ends_in(path, ".ndjson");
    if (!strcmp(path, "-"))
        return ah_error_set(err, AH_E_USAGE,
                            "'-' is no INPUT, since a file's name says which kind it is; write standard "
                            "input to a file that ends in .jsonl or .txt");
    look(path, &beginning);
    const bool array = one && first_of(&beginning) == '[';
    int rc = check_kind(&reading, &beginning, json);
    if (!rc)
        rc = json && !array ? read_lines(&reading) : read_whole(&reading, array);
    ah_arena_release(&reading.arena);
    ah_buffer_release(&reading.clean);
    return rc;
}
