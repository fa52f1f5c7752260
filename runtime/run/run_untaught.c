/* SPDX-License-Identifier: Apache-2.0
 *
 * The threshold is Unsloth's (fix_untrained_tokens): such rows are not always zero, but far below what training leaves.
 */
#include "runtime/run/run_untaught.h"

#include "runtime/model/weights.h"
#include "runtime/schedule/trainable.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float least = 1e-16F;
enum { AT_ONCE = 1 << 16, NAMED = 3 };
static const uint64_t tokens_max = UINT64_C(1) << 28;

struct search {
    const struct ah_model *model;
    const uint32_t *trained;
    /* for each token */
    unsigned char *in_embedding, *in_head; /* its row is above the threshold */
    unsigned char *found;
    /* AT_ONCE tokens */
    uint32_t *tokens;
    unsigned char *bears;
    uint64_t n_found;
    struct ah_buffer names; /* of the first NAMED that are found */
};

/* Returns the index of the block's table of tokens if it is frozen, else -1. */
static int frozen_table(const struct search *search, uint64_t block)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    const enum ah_block_kind kind = ah_model_block_kind(search->model, block);
    const char *name = kind == AH_BLOCK_EMBEDDING ? "embedding.weight" : "head.weight";
    const size_t n = kind == AH_BLOCK_LAYER ? 0 : ah_model_tensors(search->model, kind, tensors);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, name))
            return search->trained[block] >> i & 1 ? -1 : (int)i;
    return -1;
}

static bool wants_table(const void *context, uint64_t block)
{
    return frozen_table(context, block) >= 0;
}

static int look_at_rows(void *context, const struct ah_weights_piece *piece, const float *values,
                        struct ah_error *err)
{
    (void)err;
    const struct search *search = context;
    const uint64_t width = search->model->width;
    unsigned char *known = piece->block ? search->in_head : search->in_embedding;
    if ((int)piece->tensor != frozen_table(search, piece->block))
        return AH_OK;
    for (uint64_t i = 0; i < piece->n; i++)
        if (fabsf(values[i]) > least)
            known[(piece->first + i) / width] = 1;
    return AH_OK;
}

static void note(struct search *search, uint32_t token)
{
    if (search->found[token])
        return;
    search->found[token] = 1;
    if (search->n_found < NAMED)
        ah_buffer_printf(&search->names, "%s%" PRIu32, search->n_found ? ", " : "", token);
    else if (search->n_found == NAMED)
        ah_buffer_puts(&search->names, ", ...");
    search->n_found++;
}

static int look_at_data(struct search *search, struct ah_dataset *data, struct ah_error *err)
{
    const struct ah_dataset_span span = {.tokens = search->tokens, .bears = search->bears};
    const uint64_t all = ah_dataset_facts(data)->tokens, end = all < tokens_max ? all : tokens_max;
    int rc = AH_OK;
    for (uint64_t first = 0; first < end && !rc; first += AT_ONCE) {
        const size_t count = end - first < AT_ONCE ? (size_t)(end - first) : AT_ONCE;
        rc = ah_dataset_read(data, first, count, &span, err);
        for (size_t i = 0; i < count && !rc; i++) {
            const uint32_t token = search->tokens[i];
            if (!search->in_embedding[token] || (search->bears[i] && !search->in_head[token]))
                note(search, token);
        }
    }
    return rc;
}

static bool knows_all(const struct search *search)
{
    const size_t n = search->model->vocabulary;
    return !memchr(search->in_embedding, 0, n) && !memchr(search->in_head, 0, n);
}

static int find(struct search *search, const char *weights, struct ah_dataset *data, struct ah_error *err)
{
    const struct ah_weights_sink sink = {.take = look_at_rows, .context = search, .wants = wants_table};
    const uint64_t head = ah_model_blocks(search->model) - 1;
    if (frozen_table(search, 0) < 0)
        memset(search->in_embedding, 1, search->model->vocabulary);
    if (frozen_table(search, head) < 0)
        memset(search->in_head, 1, search->model->vocabulary);
    if (knows_all(search))
        return AH_OK;
    int rc = ah_weights_load(search->model, weights, &sink, err);
    return rc || knows_all(search) ? rc : look_at_data(search, data, err);
}

static void warn(const struct ah_run_host *host, const struct search *search, const char *weights)
{
    const bool one = search->n_found == 1;
    ah_run_tell(host, AH_RUN_WARNING,
                "'%s' has never learned %" PRIu64 " token%s of the data (%s): %s in its tables of tokens "
                "%s zero, and the plan freezes %s; %s, or begin with weights that know %s, such as the "
                "instruct model's",
                weights, search->n_found, one ? "" : "s", search->names.failed ? "?" : search->names.data,
                one ? "the row" : "the rows", one ? "is" : "are", one ? "it" : "them",
                search->model->lora ? "plan with '--train embedding.*,head.*'"
                                    : "plan without freezing 'embedding.*' and 'head.*'",
                one ? "it" : "them");
}

int ah_run_warn_of_untaught(struct ah_run *run, struct ah_error *err)
{
    const struct ah_model *model = &run->plan->model;
    const struct ah_signature *signature = &run->signature;
    const char *weights = run->options->weights;
    const size_t n = model->vocabulary;
    if (!weights)
        return AH_OK;
    uint32_t *trained = calloc(ah_model_blocks(model), sizeof *trained);
    uint32_t *tokens = calloc(AT_ONCE, sizeof *tokens);
    unsigned char *rows = calloc(n, 3), *bears = calloc(AT_ONCE, 1);
    struct search search = {.model = model, .trained = trained, .tokens = tokens, .bears = bears};
    int rc = trained && tokens && rows && bears ? AH_OK : ah_error_memory(err);
    if (!rc) {
        search.in_embedding = rows;
        search.in_head = rows + n;
        search.found = rows + 2 * n;
        rc = ah_trainable_match(model, signature->trainable, signature->n_trainable, trained, err);
    }
    rc = rc ? rc : find(&search, weights, run->data, err);
    if (!rc && search.n_found)
        warn(run->host, &search, weights);
    ah_buffer_release(&search.names);
    free(bears);
    free(rows);
    free(tokens);
    free(trained);
    return rc;
}
