/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/page/page.h"

#include "base/file.h"
#include "cli/page/page_internal.h"
#include "schemas/cluster_plan.h"

#include <string.h>

/* The mark in each page that is replaced by the data. */
static const char hole[] = "@DATA@";

/* enough for the order of any plan to become steady */
enum { REPLAY_ITERATIONS = 12 };

/* Appends JSON with "<" escaped, so that no text can end the script element. JSON has "<" only in texts. */
static void put_escaped(struct ah_buffer *out, const struct ah_buffer *json)
{
    const char *at = json->data, *end = json->data + json->size;
    for (const char *next; (next = memchr(at, '<', (size_t)(end - at))); at = next + 1) {
        ah_buffer_append(out, at, (size_t)(next - at));
        ah_buffer_puts(out, "\\u003c");
    }
    ah_buffer_append(out, at, (size_t)(end - at));
}

static void put_page(const unsigned char *text, size_t bytes, const struct ah_buffer *json,
                     struct ah_buffer *out)
{
    const unsigned char *at = memmem(text, bytes, hole, strlen(hole));
    size_t before = (size_t)(at - text), behind = before + strlen(hole);
    ah_buffer_append(out, (const char *)text, before);
    put_escaped(out, json);
    ah_buffer_append(out, (const char *)text + behind, bytes - behind);
}

int page_write_text(struct ah_cli *cli, const char *path, const unsigned char *text, size_t bytes,
                    const struct ah_buffer *json, struct ah_error *err)
{
    struct ah_buffer page = {0};
    int rc = AH_OK;
    put_page(text, bytes, json, &page);
    if (page.failed)
        rc = ah_error_memory(err);
    else if (!strcmp(path, "-"))
        ah_buffer_append(&cli->out, page.data, page.size);
    else
        rc = ah_file_write(path, page.data, page.size, err);
    ah_buffer_release(&page);
    return rc;
}

static int put_plan(struct page *page, struct ah_buffer *json, struct ah_error *err)
{
    page->emit = (struct ah_emit){.out = json, .one_line = true};
    ah_emit_open(&page->emit, NULL, '{');
    page_put_facts(page);
    int rc = page_put_timeline(page, err);
    ah_emit_close(&page->emit);
    return !rc && json->failed ? ah_error_memory(err) : rc;
}

static int write_plan(struct ah_cli *cli, const char *path, const struct ah_plan *plan,
                      const struct ah_plan_prospects *prospects, struct ah_error *err)
{
    struct page page = {
        .plan = plan, .prospects = prospects, .iterations = REPLAY_ITERATIONS, .arena = &cli->arena};
    struct ah_buffer json = {0};
    int rc = ah_replay_run(plan, page.iterations, page.arena, &page.replay, err);
    if (!rc)
        rc = ah_occupancy_measure(plan, page.arena, &page.occupancy, err);
    if (!rc)
        rc = put_plan(&page, &json, err);
    if (!rc)
        rc = page_write_text(cli, path, page_plan, page_plan_bytes, &json, err);
    ah_buffer_release(&json);
    return rc;
}

/* Adds a summary of each rank's program. */
static void put_programs(struct ah_emit *emit, const struct ah_cluster_plan *plan)
{
    ah_emit_open(emit, "programs", '[');
    for (size_t i = 0; i < plan->n_programs; i++) {
        const struct ah_plan *program = &plan->programs[i];
        ah_emit_open(emit, NULL, '{');
        ah_emit_number(emit, "step_us", program->time.step_us);
        ah_emit_integer(emit, "host_bytes", program->memory.host_bytes);
        ah_emit_integer(emit, "host_capacity_bytes", program->memory.host_capacity_bytes);
        page_put_classes(emit, &program->memory);
        page_put_lanes(emit, program);
        ah_emit_close(emit);
    }
    ah_emit_close(emit);
}

/* Writes a page with the document and, instead of its programs, their summaries. The page makes the timeline itself. */
static int write_cluster(struct ah_cli *cli, const char *path, const struct ah_document *document,
                         struct ah_error *err)
{
    struct ah_cluster_plan drawn = *document->body.cluster_plan;
    struct ah_document data = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = &drawn}};
    struct ah_buffer text = {0}, json = {0};
    struct ah_emit emit = {.out = &json, .one_line = true};
    drawn.n_programs = 0;
    int rc = ah_document_print(&data, &text, err);
    if (!rc) {
        ah_emit_open(&emit, NULL, '{');
        ah_emit_json(&emit, "plan", text.data);
        put_programs(&emit, document->body.cluster_plan);
        ah_emit_close(&emit);
        rc = json.failed ? ah_error_memory(err) : AH_OK;
    }
    if (!rc)
        rc = page_write_text(cli, path, page_cluster, page_cluster_bytes, &json, err);
    ah_buffer_release(&text);
    ah_buffer_release(&json);
    return rc;
}

int ah_page_write(struct ah_cli *cli, const char *path, const struct ah_document *document,
                  const struct ah_plan_prospects *prospects, struct ah_error *err)
{
    char name[AH_DOCUMENT_NAME_MAX];
    if (document->kind == AH_DOCUMENT_PLAN)
        return write_plan(cli, path, document->body.plan, prospects, err);
    if (document->kind == AH_DOCUMENT_CLUSTER_PLAN)
        return write_cluster(cli, path, document, err);
    return ah_error_set(err, AH_E_USAGE, "'--html' makes pages of plans and cluster plans; '%s' is a %s",
                        ah_document_short_name(cli->arguments.operands[0], name),
                        ah_document_word(document->kind));
}
