/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a resume document: its data, how often the run evaluates and saves, and which checkpoints it keeps.
 */
#include "cli/inspect/inspect.h"

#include "schemas/resume.h"

#include <inttypes.h>

static void put_every(struct ah_table *facts, const char *what, uint64_t steps)
{
    ah_table_cell(facts, "%s", what);
    if (steps)
        ah_table_cell(facts, "every %" PRIu64 " step%s, and at the end", steps, steps == 1 ? "" : "s");
    else
        ah_table_cell(facts, "at the end");
}

static void put_paths(struct ah_table *facts, const char *what, const char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ah_table_cell(facts, "%s", i ? "" : what);
        ah_table_cell(facts, "%s", paths[i]);
    }
}

void ah_inspect_resume_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_resume *resume = document->body.resume;
    struct ah_table facts = ah_inspect_facts(cli);
    put_paths(&facts, "data", resume->data, resume->n_data);
    put_paths(&facts, "held out", resume->valid, resume->n_valid);
    if (resume->n_valid)
        put_every(&facts, "held-out loss", resume->valid_every);
    put_every(&facts, "saves", resume->save_every);
    ah_table_cell(&facts, "checkpoints kept");
    if (resume->keep)
        ah_table_cell(&facts, "the newest %" PRIu64 "%s", resume->keep,
                      resume->keeps_best ? ", and the best" : "");
    else
        ah_table_cell(&facts, "all");
    if (resume->best) {
        ah_table_cell(&facts, "best checkpoint");
        ah_table_cell(&facts, "of step %" PRIu64 ", held-out loss %.4f", resume->best->step,
                      resume->best->loss);
    }
    if (resume->log)
        put_paths(&facts, "run log", (const char *[]){resume->log}, 1);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
    ah_inspect_pairs(cli, "annotations", resume->annotations, resume->n_annotations);
}

void ah_inspect_resume_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_resume *resume = document->body.resume;
    ah_emit_integer(emit, "data", resume->n_data);
    ah_emit_integer(emit, "valid", resume->n_valid);
    ah_emit_integer(emit, "valid_every", resume->valid_every);
    ah_emit_integer(emit, "save_every", resume->save_every);
    ah_emit_integer(emit, "keep", resume->keep);
}
