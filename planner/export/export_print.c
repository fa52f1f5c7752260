/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints an export: settings as nested JSON, as TOML tables, or as arguments. Settings of one section are adjacent, so
 * each section opens and closes once.
 */
#include "planner/export/export.h"

#include "schemas/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put_value(struct ah_buffer *out, const struct ah_export_setting *setting)
{
    switch (setting->kind) {
    case AH_EXPORT_BOOL:
        ah_buffer_puts(out, setting->integer ? "true" : "false");
        break;
    case AH_EXPORT_INTEGER:
        ah_buffer_printf(out, "%" PRIu64, setting->integer);
        break;
    case AH_EXPORT_NUMBER:
        if (isinf(setting->number))
            ah_buffer_puts(out, "inf");
        else
            ah_json_put_number(out, setting->number);
        break;
    case AH_EXPORT_TEXT:
        ah_json_put_text(out, setting->text);
        break;
    case AH_EXPORT_FLAG:
        ah_buffer_puts(out, "true");
        break;
    }
}

static void put_json_value(struct ah_buffer *out, const struct ah_export_setting *setting)
{
    if (setting->kind == AH_EXPORT_NUMBER && isinf(setting->number))
        ah_buffer_puts(out, "\"inf\"");
    else
        put_value(out, setting);
}

/* Returns the number of sections common to `path` and the previous path `open`; `ret_length`: characters in them. */
static size_t common_sections(const char *path, const char *open, size_t *ret_length)
{
    size_t sections = 0;
    *ret_length = 0;
    for (size_t i = 0; path[i] && path[i] == open[i]; i++)
        if (path[i] == '.') {
            sections++;
            *ret_length = i + 1;
        }
    return sections;
}

static size_t count_sections(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += *path == '.';
    return n;
}

/* Opens the sections in the rest of a path and appends its key. */
static void put_json_path(struct ah_buffer *out, const char *rest)
{
    for (const char *dot; (dot = strchr(rest, '.')) != NULL; rest = dot + 1)
        ah_buffer_printf(out, "\"%.*s\":{", (int)(dot - rest), rest);
    ah_buffer_printf(out, "\"%s\":", rest);
}

void ah_export_print_settings(const struct ah_export *export, struct ah_buffer *out)
{
    const char *open = "";
    ah_buffer_puts(out, "{");
    for (size_t i = 0; i < export->n_settings; i++) {
        const struct ah_export_setting *setting = &export->settings[i];
        size_t length = 0;
        size_t shared = common_sections(setting->path, open, &length);
        for (size_t depth = count_sections(open); depth > shared; depth--)
            ah_buffer_puts(out, "}");
        ah_buffer_puts(out, i ? "," : "");
        put_json_path(out, setting->path + length);
        put_json_value(out, setting);
        open = setting->path;
    }
    for (size_t depth = count_sections(open); depth > 0; depth--)
        ah_buffer_puts(out, "}");
    ah_buffer_puts(out, "}");
}

static void print_json(const struct ah_export *export, struct ah_buffer *out)
{
    struct ah_buffer compact = {0};
    ah_export_print_settings(export, &compact);
    if (compact.failed)
        out->failed = true;
    else
        ah_json_layout(out, compact.data);
    ah_buffer_release(&compact);
}

/* Appends text of a comment. Control characters become '?', because a line break would end the comment. */
static void put_comment(struct ah_buffer *out, const char *text)
{
    ah_buffer_puts(out, "# ");
    for (; *text; text++) {
        char c = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
        ah_buffer_append(out, &c, 1);
    }
    ah_buffer_puts(out, "\n");
}

/* Appends the line as a comment and clears it. */
static void end_comment(struct ah_buffer *out, struct ah_buffer *line)
{
    out->failed = out->failed || line->failed;
    if (!line->failed)
        put_comment(out, line->data);
    ah_buffer_clear(line);
}

static void put_comments(const struct ah_export *export, struct ah_buffer *out)
{
    struct ah_buffer line = {0};
    ah_buffer_printf(&line, "autohete export --to %s: '%s' on '%s', policy %s",
                     ah_words_export_target[export->target], export->plan->inputs.model.name,
                     export->plan->inputs.machine.name, ah_words_policy[export->plan->policy]);
    end_comment(out, &line);
    ah_export_print_origin(export, &line);
    end_comment(out, &line);
    for (size_t i = 0; i < export->n_losses; i++) {
        ah_export_print_loss(&export->losses[i], &line);
        end_comment(out, &line);
    }
    for (size_t i = 0; i < export->n_notes; i++) {
        ah_buffer_printf(&line, "note: %s", export->notes[i]);
        end_comment(out, &line);
    }
    ah_buffer_release(&line);
}

static void print_arguments(const struct ah_export *export, struct ah_buffer *out)
{
    put_comments(export, out);
    ah_buffer_puts(out, "# source this file, then pass \"${AUTOHETE_ARGS[@]}\" to the training "
                        "script\nAUTOHETE_ARGS=(\n");
    for (size_t i = 0; i < export->n_settings; i++) {
        const struct ah_export_setting *setting = &export->settings[i];
        ah_buffer_printf(out, "  --%s", setting->path);
        if (setting->kind == AH_EXPORT_TEXT) {
            ah_buffer_printf(out, " %s", setting->text);
        } else if (setting->kind != AH_EXPORT_FLAG) {
            ah_buffer_puts(out, " ");
            put_value(out, setting);
        }
        ah_buffer_puts(out, "\n");
    }
    ah_buffer_puts(out, ")\n");
}

static void print_toml(const struct ah_export *export, struct ah_buffer *out)
{
    size_t section = 0; /* length of the open section's name */
    const char *open = "";
    put_comments(export, out);
    for (size_t i = 0; i < export->n_settings; i++) {
        const struct ah_export_setting *setting = &export->settings[i];
        size_t length = strcspn(setting->path, ".");
        if (length != section || strncmp(open, setting->path, length) != 0)
            ah_buffer_printf(out, "\n[%.*s]\n", (int)length, setting->path);
        ah_buffer_printf(out, "%s = ", setting->path + length + 1);
        put_value(out, setting);
        ah_buffer_puts(out, "\n");
        open = setting->path;
        section = length;
    }
}

void ah_export_print_origin(const struct ah_export *export, struct ah_buffer *out)
{
    ah_buffer_printf(out, "written for %s from the plan with digest %s", export->version,
                     export->plan_sha256);
}

void ah_export_print_loss(const struct ah_export_loss *loss, struct ah_buffer *out)
{
    static const char *const effects[] = {
#define EFFECT_TEXT(value, word, text) [value] = (text),
        AH_EXPORT_EFFECTS(EFFECT_TEXT)
#undef EFFECT_TEXT
    };
    ah_buffer_printf(out, "lost (%s): %s", effects[loss->effect], loss->blocks ? loss->blocks : "the plan ");
    ah_buffer_puts(out, loss->blocks ? ": " : "");
    ah_buffer_printf(out, "%s; %s", loss->plan, loss->instead);
}

typedef void export_writer(const struct ah_export *export, struct ah_buffer *out);

void ah_export_print(const struct ah_export *export, struct ah_buffer *out)
{
    static export_writer *const writers[] = {[AH_EXPORT_DEEPSPEED] = print_json,
                                             [AH_EXPORT_MEGATRON] = print_arguments,
                                             [AH_EXPORT_TORCHTITAN] = print_toml};
    writers[export->target](export, out);
}
