/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/page.h"

#include "base/file.h"
#include "cli/page_internal.h"

#include <string.h>

/* Where the page's data goes; page/plan.html has it once. */
static const char hole[] = "@DATA@";

/* Enough for a frozen order to become steady. */
enum { REPLAY_ITERATIONS = 12 };

/* "<" stands in JSON only in texts, where an escape means the same: no text can end the script element. */
static void put_escaped(struct ah_buffer *out, const struct ah_buffer *json)
{
    const char *at = json->data, *end = json->data + json->size;
    for (const char *next; (next = memchr(at, '<', (size_t)(end - at))); at = next + 1) {
        ah_buffer_append(out, at, (size_t)(next - at));
        ah_buffer_puts(out, "\\u003c");
    }
    ah_buffer_append(out, at, (size_t)(end - at));
}

static int put_data(struct page *page, struct ah_buffer *out, struct ah_error *err)
{
    struct ah_buffer json = {0};
    page->emit = (struct ah_emit){.out = &json, .one_line = true};
    ah_emit_open(&page->emit, NULL, '{');
    page_put_facts(page);
    int rc = page_put_timeline(page, err);
    ah_emit_close(&page->emit);
    if (!rc && json.failed)
        rc = ah_error_memory(err);
    if (!rc)
        put_escaped(out, &json);
    ah_buffer_release(&json);
    return rc;
}

static int put_page(struct page *page, struct ah_buffer *out, struct ah_error *err)
{
    const char *text = (const char *)page_text;
    const char *at = memmem(text, page_text_bytes, hole, strlen(hole));
    size_t before = (size_t)(at - text), behind = before + strlen(hole);
    ah_buffer_append(out, text, before);
    int rc = put_data(page, out, err);
    ah_buffer_append(out, text + behind, page_text_bytes - behind);
    return !rc && out->failed ? ah_error_memory(err) : rc;
}

int ah_page_write(struct ah_cli *cli, const char *path, const struct ah_plan *plan, struct ah_error *err)
{
    struct page page = {.plan = plan, .iterations = REPLAY_ITERATIONS, .arena = &cli->arena};
    struct ah_buffer text = {0};
    int rc = ah_replay_run(plan, NULL, page.iterations, page.arena, &page.replay, err);
    if (!rc)
        rc = ah_occupancy_measure(plan, page.arena, &page.occupancy, err);
    if (!rc)
        rc = put_page(&page, &text, err);
    if (!rc && !strcmp(path, "-"))
        ah_buffer_append(&cli->out, text.data, text.size);
    else if (!rc)
        rc = ah_file_write(path, text.data, text.size, err);
    ah_buffer_release(&text);
    return rc;
}
