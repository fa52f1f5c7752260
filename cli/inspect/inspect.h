/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspect: each kind of document at a glance, for people, and as a summary for programs.
 *
 * Each kind has a pair of functions; verb_inspect.c lists them. Text goes to cli->out, the summary to an object opened
 * and closed by the caller.
 */
#ifndef AH_CLI_INSPECT_INSPECT_H
#define AH_CLI_INSPECT_INSPECT_H

#include "cli/frame/cli.h"
#include "cli/frame/emit.h"
#include "cli/frame/table.h"
#include "runtime/run/runlog_summary.h"
#include "schemas/cluster_plan.h"
#include "schemas/document.h"
#include "schemas/moves.h"
#include "schemas/plan.h"
#include "schemas/signature.h"
#include "schemas/vocabulary.h"

/* Shows a document of one kind: as text, and as an object for `--json`. The pairs below do this for other kinds. */
void ah_inspect_model_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_model_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_machine_text(struct ah_cli *cli, const struct ah_document *document);

/* Prints the machine, its best rates, and its measured blocks, on one screen. */
void ah_inspect_machine_summary(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_machine_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_cluster_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_cluster_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_plan_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_plan_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_cluster_plan_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_cluster_plan_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_inventory_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_inventory_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_moves_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_moves_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_runlog_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_runlog_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_checkpoint_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_checkpoint_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_resume_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_resume_json(struct ah_emit *emit, const struct ah_document *document);
void ah_inspect_status_text(struct ah_cli *cli, const struct ah_document *document);
void ah_inspect_status_json(struct ah_emit *emit, const struct ah_document *document);

/* Shared with report. Facts: what ran, how it went and how it ended; evaluations: the last ones. The two functions for
 * JSON add the first fields, or times, to an object opened by the caller. */
void ah_inspect_runlog_facts(struct ah_cli *cli, const struct ah_runlog *runlog,
                             const struct ah_runlog_summary *summary);
void ah_inspect_runlog_evaluations(struct ah_cli *cli, const struct ah_runlog *runlog);
void ah_inspect_runlog_head(struct ah_emit *emit, const struct ah_runlog *runlog);
void ah_inspect_runlog_times(struct ah_emit *emit, const struct ah_runlog_summary *summary, bool measured);

/* Prints the first lines of a plan: assumptions of a what-if, speed, policy, quality, and what is trained. */
void ah_inspect_plan_headline(struct ah_cli *cli, const struct ah_plan *plan);

/* Adds "what_if": [...] if the plan assumes more memory than its machine has; otherwise adds nothing. */
void ah_inspect_plan_what_if_json(struct ah_emit *emit, const struct ah_plan *plan);

/* Prints the first lines of a cluster plan: speed, quality, and where the time goes. */
void ah_inspect_cluster_plan_summary(struct ah_cli *cli, const struct ah_cluster_plan *plan);

/* Prints the first lines of moves: the step, the time of the moves, and how many bytes come from where. */
void ah_inspect_moves_summary(struct ah_cli *cli, const struct ah_moves *moves);

void ah_inspect_signature_text(struct ah_cli *cli, const struct ah_signature *signature);
void ah_inspect_signature_json(struct ah_emit *emit, const struct ah_signature *signature);

/* Prints "\n<heading>\n" in bold. */
void ah_inspect_heading(struct ah_cli *cli, const char *heading);

/* Returns an empty table with columns for names and values; add cells in pairs. */
struct ah_table ah_inspect_facts(struct ah_cli *cli);

/* Adds a cell "embedding, layer.0-8": blocks of a model with `of_model` blocks, named as in plans for one machine. */
void ah_inspect_cell_blocks(struct ah_table *table, uint64_t of_model, uint64_t first, uint64_t blocks);

/* Prints a table below its heading, unless it has no rows. */
void ah_inspect_table(struct ah_cli *cli, const char *heading, struct ah_table *table);

/* Prints "key: value" lines below a heading, unless there are no pairs. */
void ah_inspect_pairs(struct ah_cli *cli, const char *heading, const struct ah_text_pair *pairs, size_t n);

/* Prints one text per line below a heading, unless there are no texts. */
void ah_inspect_list(struct ah_cli *cli, const char *heading, const char *const *texts, size_t n);

#endif
