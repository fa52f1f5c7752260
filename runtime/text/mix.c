/* SPDX-License-Identifier: Apache-2.0
 *
 * Mix: draws copies of documents; writes and reads inputs.json.
 */
#include "runtime/text/mix.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/philox.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 26 };

uint32_t ah_mix_copies(const struct ah_mix *mix, size_t input, uint64_t document)
{
    const struct ah_philox_name name = {
        .seed = mix->seed, .purpose = AH_PHILOX_MIX, .block = (uint32_t)input, .element = document};
    const double weight = mix->inputs[input].weight, whole = floor(weight);
    uint32_t bits[4];
    ah_philox_draw(&name, bits);
    return (uint32_t)whole + (ldexp(bits[0], -32) + ldexp(bits[1], -64) < weight - whole);
}

double ah_mix_share(const struct ah_mix *mix, size_t input)
{
    uint64_t all = 0;
    for (size_t i = 0; i < mix->n; i++)
        all += mix->inputs[i].train.tokens;
    return all ? (double)mix->inputs[input].train.tokens / (double)all : 0;
}

/* ---- the file ---- */

static int name_file(const char *folder, char ret_path[PATH_MAX], struct ah_error *err)
{
    if (snprintf(ret_path, PATH_MAX, "%s/%s", folder, AH_MIX_FILE) >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", folder);
    return AH_OK;
}

static void put_input(const struct ah_mix *mix, size_t i, struct ah_buffer *out)
{
    const struct ah_mix_input *input = &mix->inputs[i];
    ah_buffer_puts(out, i ? ",{\"path\":" : "{\"path\":");
    if (!ah_json_put_text(out, input->path))
        ah_buffer_puts(out, "\"(a name that is not UTF-8)\"");
    ah_buffer_puts(out, ",\"weight\":");
    ah_json_put_number(out, input->weight);
    ah_buffer_printf(out, ",\"read\":%" PRIu64 ",\"documents\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"share\":",
                     input->read, input->train.documents, input->train.tokens);
    ah_json_put_number(out, ah_mix_share(mix, i));
    ah_buffer_printf(out, ",\"held_out_documents\":%" PRIu64 ",\"held_out_tokens\":%" PRIu64 "}",
                     input->held_out.documents, input->held_out.tokens);
}

int ah_mix_save(const struct ah_mix *mix, const char *folder, struct ah_error *err)
{
    struct ah_buffer compact = {0}, text = {0};
    char path[PATH_MAX];
    int rc = name_file(folder, path, err);
    ah_buffer_printf(&compact, "{\"seed\":%" PRIu64 ",\"inputs\":[", mix->seed);
    for (size_t i = 0; i < mix->n; i++)
        put_input(mix, i, &compact);
    ah_buffer_puts(&compact, "]}");
    if (!rc && !compact.failed)
        ah_json_layout(&text, compact.data);
    if (!rc && (compact.failed || text.failed))
        rc = ah_error_memory(err);
    rc = rc ? rc : ah_file_write(path, text.data, text.size, err);
    ah_buffer_release(&compact);
    ah_buffer_release(&text);
    return rc;
}

struct loading {
    struct ah_arena *arena;
    bool no_memory; /* a text could not be kept */
};

static const char *keep(struct loading *loading, const char *text)
{
    loading->no_memory |= !text;
    return text;
}

/* Reads the number at the cursor; 0 if there is none. */
static double take_number(struct ah_cursor *cursor)
{
    char text[AH_JSON_NUMBER_MAX + 1] = "";
    ah_cursor_peek(cursor);
    for (size_t i = 0; i < AH_JSON_NUMBER_MAX && cursor->at + i < cursor->end &&
                       strchr("0123456789.eE+-", cursor->at[i]) && cursor->at[i];
         i++)
        text[i] = cursor->at[i];
    ah_cursor_skip(cursor);
    return strtod(text, NULL);
}

/* Reads the object at the cursor. False: it is none of ours. */
static bool take_input(struct ah_cursor *cursor, struct loading *loading, struct ah_mix_input *ret)
{
    static const char *const names[] = {"read", "documents", "tokens", "held_out_documents",
                                        "held_out_tokens"};
    uint64_t *const counts[] = {&ret->read, &ret->train.documents, &ret->train.tokens,
                                &ret->held_out.documents, &ret->held_out.tokens};
    size_t found = 0;
    if (!ah_cursor_enter(cursor, '{'))
        return false;
    while (ah_cursor_next(cursor, '}')) {
        const char *key = keep(loading, ah_cursor_key(cursor, loading->arena));
        size_t count = 0;
        while (key && count < sizeof names / sizeof *names && strcmp(names[count], key) != 0)
            count++;
        if (!key) {
            return false;
        } else if (!strcmp(key, "path") && ah_cursor_peek(cursor) == '"') {
            ret->path = keep(loading, ah_cursor_text(cursor, loading->arena));
        } else if (!strcmp(key, "weight")) {
            ret->weight = take_number(cursor);
        } else if (count < sizeof names / sizeof *names) {
            if (!ah_cursor_count(cursor, counts[count]))
                return false;
            found++;
        } else {
            ah_cursor_skip(cursor);
        }
    }
    return ret->path && ret->weight > 0 && found == sizeof names / sizeof *names;
}

static size_t count_items(struct ah_cursor cursor)
{
    size_t n = 0;
    if (ah_cursor_enter(&cursor, '['))
        for (; ah_cursor_next(&cursor, ']'); n++)
            ah_cursor_skip(&cursor);
    return n;
}

static bool take_inputs(struct ah_cursor *cursor, struct loading *loading, struct ah_mix *mix)
{
    const size_t n = count_items(*cursor);
    mix->inputs = n ? ah_arena_array(loading->arena, n, sizeof *mix->inputs) : NULL;
    loading->no_memory |= n && !mix->inputs;
    if (!mix->inputs || !ah_cursor_enter(cursor, '['))
        return false;
    for (size_t i = 0; ah_cursor_next(cursor, ']'); i++) {
        mix->inputs[i] = (struct ah_mix_input){0};
        if (!take_input(cursor, loading, &mix->inputs[i]))
            return false;
    }
    mix->n = n;
    return true;
}

static bool take_mix(struct ah_cursor cursor, struct loading *loading, struct ah_mix *mix)
{
    bool good = ah_cursor_enter(&cursor, '{');
    while (good && ah_cursor_next(&cursor, '}')) {
        const char *key = keep(loading, ah_cursor_key(&cursor, loading->arena));
        if (key && !strcmp(key, "seed"))
            good = ah_cursor_count(&cursor, &mix->seed);
        else if (key && !strcmp(key, "inputs"))
            good = take_inputs(&cursor, loading, mix);
        else
            good = false;
    }
    return good;
}

int ah_mix_load(struct ah_mix *ret_mix, const char *folder, struct ah_arena *arena, struct ah_error *err)
{
    struct ah_buffer text = {0};
    struct ah_error reason = {0};
    char path[PATH_MAX];
    struct ah_mix mix = {0};
    int rc = name_file(folder, path, &reason);
    rc = rc ? rc : ah_file_check_regular(path, &reason);
    rc = rc ? rc : ah_file_read(path, FILE_MOST, &text, &reason);
    const struct ah_json_source source = {path, text.data ? text.data : "", text.size, 1};
    rc = rc ? rc : ah_json_scan(&source, &reason);
    const struct ah_cursor cursor = {source.text, source.text + source.size};
    struct loading loading = {.arena = arena};
    *ret_mix = rc || !take_mix(cursor, &loading, &mix) ? (struct ah_mix){0} : mix;
    ah_buffer_release(&text);
    return rc == AH_E_MEMORY || loading.no_memory ? ah_error_memory(err) : AH_OK;
}
