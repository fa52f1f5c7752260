/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows the numeric signature of plans, run logs and checkpoints.
 */
#include "cli/inspect/inspect.h"

#include "cli/inspect/plan_summary.h"

#include "schemas/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATTERNS_MAX = 256, HASH_SHOWN = 12 };

/* Prints "attention.*, !embedding.*". Returns `out`. */
static const char *join_patterns(char out[PATTERNS_MAX], const struct ah_signature *signature)
{
    out[0] = '\0';
    for (size_t i = 0; i < signature->n_trainable; i++) {
        size_t used = strlen(out);
        snprintf(out + used, PATTERNS_MAX - used, "%s%s", i ? ", " : "", signature->trainable[i]);
    }
    return out;
}

static void put_run(struct ah_table *facts, const struct ah_signature_run *run)
{
    ah_table_cell(facts, "schedule");
    ah_table_cell(facts, "%s over %" PRIu64 " steps, %" PRIu64 " of warm-up, rate %g", run->schedule,
                  run->steps, run->warmup_steps, run->lr);
    ah_table_cell(facts, "AdamW");
    ah_table_cell(facts, "betas %g %g, epsilon %g, weight decay %g", run->beta1, run->beta2, run->epsilon,
                  run->weight_decay);
    ah_table_cell(facts, "seed");
    ah_table_cell(facts, "%" PRIu64, run->seed);
    ah_table_cell(facts, "data");
    ah_table_cell(facts, "sha256 %.*s...", HASH_SHOWN, run->data_sha256);
}

static void put_batch(struct ah_table *facts, const struct ah_signature *signature)
{
    struct ah_buffer text = {0};
    ah_plan_put_batch(&text, signature->batch, signature->seq);
    ah_table_cell(facts, "%s in %" PRIu64 " micro-batch%s", text.failed ? "" : text.data,
                  signature->micro_batches, signature->micro_batches == 1 ? "" : "es");
    if (signature->n_sums) {
        struct ah_buffer sums = {0};
        ah_plan_put_sums(&sums, signature->sums, signature->n_sums);
        ah_table_cell(facts, "sums");
        ah_table_cell(facts, "groups of %s micro-batches", sums.failed ? "" : sums.data);
        ah_buffer_release(&sums);
    }
    if (signature->tied == AH_TIED_SPLIT) {
        ah_table_cell(facts, "tied table");
        ah_table_cell(facts, "split: embedding and head have a copy each");
    }
    facts->failed = facts->failed || text.failed;
    ah_buffer_release(&text);
}

void ah_inspect_signature_text(struct ah_cli *cli, const struct ah_signature *signature)
{
    char patterns[PATTERNS_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "model");
    ah_table_cell(&facts, "sha256 %.*s...", HASH_SHOWN, signature->model_sha256);
    ah_table_cell(&facts, "trainable");
    ah_table_cell(&facts, "%s", join_patterns(patterns, signature));
    ah_table_cell(&facts, "numbers");
    ah_table_cell(&facts, "%s, states %s, on %s", ah_words_dtype[signature->dtype],
                  ah_words_dtype[signature->state_dtype], ah_words_device_kind[signature->device]);
    ah_table_cell(&facts, "batch");
    put_batch(&facts, signature);
    ah_table_cell(&facts, "clipping");
    if (signature->clip > 0)
        ah_table_cell(&facts, "gradient norm at most %g", signature->clip);
    else
        ah_table_cell(&facts, "none");
    if (signature->run)
        put_run(&facts, signature->run);
    ah_inspect_table(cli, "numeric signature: equal signatures give equal bits", &facts);
}

static void emit_run(struct ah_emit *emit, const struct ah_signature_run *run)
{
    ah_emit_open(emit, "run", '{');
    ah_emit_integer(emit, "seed", run->seed);
    ah_emit_text(emit, "data_sha256", run->data_sha256);
    ah_emit_text(emit, "schedule", run->schedule);
    ah_emit_number(emit, "lr", run->lr);
    ah_emit_number(emit, "beta1", run->beta1);
    ah_emit_number(emit, "beta2", run->beta2);
    ah_emit_number(emit, "epsilon", run->epsilon);
    ah_emit_number(emit, "weight_decay", run->weight_decay);
    ah_emit_integer(emit, "warmup_steps", run->warmup_steps);
    ah_emit_integer(emit, "steps", run->steps);
    ah_emit_close(emit);
}

void ah_inspect_signature_json(struct ah_emit *emit, const struct ah_signature *signature)
{
    ah_emit_open(emit, "numeric_signature", '{');
    ah_emit_text(emit, "model_sha256", signature->model_sha256);
    ah_emit_open(emit, "trainable", '[');
    for (size_t i = 0; i < signature->n_trainable; i++)
        ah_emit_text(emit, NULL, signature->trainable[i]);
    ah_emit_close(emit);
    ah_emit_text(emit, "dtype", ah_words_dtype[signature->dtype]);
    ah_emit_text(emit, "state_dtype", ah_words_dtype[signature->state_dtype]);
    ah_emit_integer(emit, "batch", signature->batch);
    ah_emit_integer(emit, "micro_batches", signature->micro_batches);
    ah_emit_integer(emit, "seq", signature->seq);
    ah_emit_number(emit, "clip", signature->clip);
    ah_emit_text(emit, "device", ah_words_device_kind[signature->device]);
    if (signature->matmul_sha256)
        ah_emit_text(emit, "matmul_sha256", signature->matmul_sha256);
    if (signature->run)
        emit_run(emit, signature->run);
    ah_emit_close(emit);
}
