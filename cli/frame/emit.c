/* SPDX-License-Identifier: Apache-2.0
 *
 * Emit: JSON for other programs, value by value.
 */
#include "cli/frame/emit.h"

#include "schemas/json.h"

#include <inttypes.h>
#include <math.h>

static void put_text(struct ah_buffer *out, const char *text)
{
    if (!ah_json_put_text(out, text))
        ah_json_put_repaired(out, text);
}

/* Writes a comma and the value's key. */
static struct ah_buffer *begin_value(struct ah_emit *emit, const char *key)
{
    struct ah_buffer *text = &emit->text;
    if (emit->depth && emit->filled[emit->depth - 1])
        ah_buffer_puts(text, ",");
    if (emit->depth)
        emit->filled[emit->depth - 1] = true;
    if (key) {
        put_text(text, key);
        ah_buffer_puts(text, ":");
    }
    return text;
}

void ah_emit_open(struct ah_emit *emit, const char *key, char bracket)
{
    if (!emit->out)
        return;
    ah_buffer_append(begin_value(emit, key), &bracket, 1);
    emit->filled[emit->depth] = false;
    emit->ends[emit->depth] = bracket == '{' ? '}' : ']';
    emit->depth++;
}

static void finish_output(struct ah_emit *emit)
{
    if (emit->text.failed) {
        emit->out->failed = true;
    } else if (emit->one_line) {
        ah_buffer_append(emit->out, emit->text.data, emit->text.size);
    } else {
        ah_json_layout(emit->out, emit->text.data);
        if (emit->out->size && emit->out->data[emit->out->size - 1] != '\n')
            ah_buffer_puts(emit->out, "\n");
    }
    ah_buffer_release(&emit->text);
}

void ah_emit_close(struct ah_emit *emit)
{
    if (!emit->out)
        return;
    emit->depth--;
    ah_buffer_append(&emit->text, &emit->ends[emit->depth], 1);
    if (!emit->depth)
        finish_output(emit);
}

void ah_emit_json(struct ah_emit *emit, const char *key, const char *json)
{
    if (emit->out)
        ah_buffer_puts(begin_value(emit, key), json);
}

void ah_emit_text(struct ah_emit *emit, const char *key, const char *text)
{
    if (!text)
        ah_emit_json(emit, key, "null");
    else if (emit->out)
        put_text(begin_value(emit, key), text);
}

void ah_emit_buffer(struct ah_emit *emit, const char *key, struct ah_buffer *text)
{
    ah_emit_text(emit, key, text->data ? text->data : "");
    if (text->failed && emit->out)
        emit->out->failed = true;
    ah_buffer_release(text);
}

void ah_emit_integer(struct ah_emit *emit, const char *key, uint64_t value)
{
    if (emit->out)
        ah_buffer_printf(begin_value(emit, key), "%" PRIu64, value);
}

void ah_emit_number(struct ah_emit *emit, const char *key, double value)
{
    if (!isfinite(value))
        ah_emit_json(emit, key, "null");
    else if (emit->out)
        ah_json_put_number(begin_value(emit, key), value);
}

void ah_emit_bool(struct ah_emit *emit, const char *key, bool value)
{
    ah_emit_json(emit, key, value ? "true" : "false");
}

void ah_emit_error_fields(struct ah_emit *emit, const struct ah_error *err, int exit_status)
{
    ah_emit_text(emit, "code", ah_error_word(err->code));
    ah_emit_integer(emit, "exit_status", (uint64_t)exit_status);
    ah_emit_text(emit, "message", err->text);
}

void ah_emit_error(struct ah_emit *emit, const char *key, const struct ah_error *err, int exit_status)
{
    ah_emit_open(emit, key, '{');
    ah_emit_error_fields(emit, err, exit_status);
    ah_emit_close(emit);
}
