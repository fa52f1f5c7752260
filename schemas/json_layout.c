/* SPDX-License-Identifier: Apache-2.0
 *
 * Layout: turns compact JSON text into text for people. An object or list that fits on its line stays on one line. A
 * longer list of numbers fills lines; anything else has one member per line.
 */
#include "schemas/json.h"

struct layout {
    struct ah_buffer *out;
    const char *at; /* next character of the compact text */
};

/* Returns the end of the string that begins at `at`. */
static const char *string_end(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

static const char *scalar_end(const char *at)
{
    if (*at == '"')
        return string_end(at);
    while (*at && *at != ',' && *at != ']' && *at != '}')
        at++;
    return at;
}

/* Returns the columns that the value at `at` needs on one line, or any number above `limit` if more than `limit`. */
static size_t line_width(const char *at, size_t limit)
{
    size_t width = 0;
    size_t depth = 0;
    while (*at && width <= limit) {
        if (*at == '"') {
            const char *end = string_end(at);
            width += (size_t)(end - at);
            at = end;
        } else {
            depth += *at == '{' || *at == '[';
            depth -= *at == '}' || *at == ']';
            width += *at == ',' || *at == ':' ? 2 : 1;
            at++;
        }
        if (depth == 0 && (*at == ',' || *at == ']' || *at == '}' || *at == ':' || *at == '\0'))
            break;
    }
    return width;
}

static size_t column(const struct ah_buffer *out)
{
    size_t n = 0;
    while (n < out->size && out->data[out->size - 1 - n] != '\n')
        n++;
    return n;
}

static void new_line(struct layout *layout, size_t indent)
{
    ah_buffer_puts(layout->out, "\n");
    for (size_t i = 0; i < indent; i++)
        ah_buffer_puts(layout->out, "  ");
}

static void put_scalar(struct layout *layout)
{
    const char *end = scalar_end(layout->at);
    ah_buffer_append(layout->out, layout->at, (size_t)(end - layout->at));
    layout->at = end;
}

/* Puts the container at `at` on one line. */
static void put_inline(struct layout *layout)
{
    size_t depth = 0;
    do {
        char c = *layout->at;
        if (c == '"') {
            put_scalar(layout);
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        ah_buffer_append(layout->out, &c, 1);
        if (c == ',' || c == ':')
            ah_buffer_puts(layout->out, " ");
        layout->at++;
    } while (depth);
}

/* Puts a list of scalars so that it fills lines; `at` is after the bracket. */
static void put_filled(struct layout *layout, size_t indent)
{
    for (bool first = true; *layout->at != ']'; first = false) {
        if (*layout->at == ',') {
            ah_buffer_puts(layout->out, ",");
            layout->at++;
        }
        size_t width = (size_t)(scalar_end(layout->at) - layout->at) + 2;
        if (first || column(layout->out) + width > AH_JSON_LINE)
            new_line(layout, indent + 1);
        else
            ah_buffer_puts(layout->out, " ");
        put_scalar(layout);
    }
}

static bool all_scalars(const char *at)
{
    for (at++; *at != ']'; at = *at == ',' ? at + 1 : at) {
        if (*at == '{' || *at == '[')
            return false;
        at = scalar_end(at);
    }
    return true;
}

static void put_value(struct layout *layout, size_t indent);

static void put_members(struct layout *layout, size_t indent)
{
    while (*layout->at != '}' && *layout->at != ']') {
        if (*layout->at == ',') {
            ah_buffer_puts(layout->out, ",");
            layout->at++;
        }
        new_line(layout, indent + 1);
        if (*layout->at == '"') {
            put_scalar(layout);
            if (*layout->at == ':') {
                ah_buffer_puts(layout->out, ": ");
                layout->at++;
                put_value(layout, indent + 1);
            }
        } else
            put_value(layout, indent + 1);
    }
}

static void put_value(struct layout *layout, size_t indent)
{
    const char *at = layout->at;
    if (*at != '{' && *at != '[') {
        put_scalar(layout);
        return;
    }
    size_t used = column(layout->out) + 1;
    size_t room = used < AH_JSON_LINE ? AH_JSON_LINE - used : 0;
    if ((indent > 0 && line_width(at, room) <= room) || at[1] == '}' || at[1] == ']') {
        put_inline(layout);
        return;
    }
    ah_buffer_append(layout->out, at, 1);
    layout->at++;
    if (*at == '[' && all_scalars(at) && at[1] != '"')
        put_filled(layout, indent);
    else
        put_members(layout, indent);
    new_line(layout, indent);
    ah_buffer_append(layout->out, layout->at, 1);
    layout->at++;
}

void ah_json_layout(struct ah_buffer *out, const char *compact)
{
    struct layout layout = {out, compact};
    put_value(&layout, 0);
    ah_buffer_puts(out, "\n");
}
