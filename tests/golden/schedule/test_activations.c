/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that the tables of docs/activations.md agree with the code. Regenerate the tables with
 *
 *     AH_REGENERATE=1 ctest -R golden.schedule.activations
 */
#include "base/buffer.h"
#include "base/file.h"
#include "runtime/schedule/program.h"
#include "tests/property/schedule/jobs.h"

#include <stdlib.h>

static const char page[] = "docs/activations.md";
static const char begin[] = "<!-- generated: begin -->\n", end[] = "<!-- generated: end -->\n";

enum { TOKENS = 1024 };

static const struct {
    const char *title, *model, *sizes;
} families[] = {
    {"GPT-2 (`gpt2-124m`)", "gpt2-124m", "h 768, heads 12 of 64, MLP 3072"},
    {"Llama (`llama-2-7b`)", "llama-2-7b", "h 4096, heads 32 of 128, MLP 11008"},
    {"Llama with grouped heads (`llama-3-8b`); Mistral, SmolLM 3 and Phi-3 are the same", "llama-3-8b",
     "h 4096, heads 32 of 128, 8 of keys, MLP 14336"},
    {"Qwen2 (`qwen2.5-0.5b`): Llama with biases of q, k, v, which need nothing saved", "qwen2.5-0.5b",
     "h 896, heads 14 of 64, 2 of keys, MLP 4864"},
    {"Qwen3 (`qwen3-0.6b`): norms of q and k", "qwen3-0.6b", "h 1024, heads 16 of 128, 8 of keys, MLP 3072"},
    {"OLMo 2 (`olmo-2-7b`): norms after attention and MLP, norms of q and k", "olmo-2-7b",
     "h 4096, heads 32 of 128, MLP 11008"},
    {"Gemma 2 (`gemma-2-2b`): norms around attention and MLP", "gemma-2-2b",
     "h 2304, heads 8 of 256, 4 of keys, MLP 9216"},
};

static void cell(struct ah_buffer *out, bool there, uint64_t bytes)
{
    if (there)
        ah_buffer_printf(out, " %llu |", (unsigned long long)(bytes / TOKENS));
    else
        ah_buffer_puts(out, " |");
}

static void row(struct ah_buffer *out, const char *name, const uint64_t bytes[AH_ACTIVATIONS_WAYS])
{
    ah_buffer_printf(out, "| %s |", name);
    for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
        cell(out, true, bytes[way]);
    ah_buffer_puts(out, "\n");
}

/* Prints the steps that backward recomputes, in order. */
static void print_recomputed(struct ah_buffer *out, const struct ah_job *job,
                             const struct ah_job_group *layer, enum ah_activations way)
{
    struct ah_program *program = malloc(sizeof *program);
    struct ah_error err = {0};
    const char *separator = "";
    assert_non_null(program);
    CHECK_OK(ah_program_build(job, layer, AH_PASS_BACKWARD, way, program, &err), err);
    ah_buffer_printf(out, "- `%s` repeats ", ah_words_activations[way]);
    for (size_t i = 0; i < program->n_ops; i++) {
        if (!program->ops[i].recomputed)
            continue;
        ah_buffer_printf(out, "%s`%s`", separator, program->ops[i].name);
        separator = ", ";
    }
    ah_buffer_puts(out, "\n");
    free(program);
}

static void print_family(struct ah_buffer *out, size_t family)
{
    struct ah_program_tensor tensors[AH_PROGRAM_TENSORS_MAX];
    struct test_job j;
    test_job_open(&j, families[family].model,
                  (struct ah_plan_training){.batch = 1, .micro_batches = 1, .seq = TOKENS, .dtype = AH_BF16});
    const struct ah_job_group *layer = test_job_group(&j.job, AH_BLOCK_LAYER);
    ah_buffer_printf(out,
                     "### %s\n\n%s.\n\n| saved tensor | keep | selective | recompute |\n|---|--:|--:|--:|\n",
                     families[family].title, families[family].sizes);
    size_t n = ah_program_saved(&j.job, layer, tensors);
    for (size_t i = 0; i < n; i++) {
        ah_buffer_printf(out, "| `%s` |", tensors[i].name);
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
            cell(out, tensors[i].saved[way], tensors[i].bytes);
        ah_buffer_puts(out, "\n");
    }
    row(out, "**saved**", layer->saved_bytes);
    row(out, "scratch of forward", layer->forward_work_bytes);
    row(out, "scratch of backward", layer->backward_work_bytes);
    ah_buffer_puts(out, "\n");
    print_recomputed(out, &j.job, layer, AH_ACTIVATIONS_SELECTIVE);
    print_recomputed(out, &j.job, layer, AH_ACTIVATIONS_RECOMPUTE);
    ah_buffer_puts(out, "\n");
    test_job_close(&j);
}

TEST(activations, page_says_what_is_saved)
{
    struct ah_buffer file = {0}, tables = {0}, whole = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read(page, 1 << 20, &file, &err), err);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        print_family(&tables, i);
    char *first = strstr(file.data, begin), *last = strstr(file.data, end);
    assert_true(first && last && first < last);
    first += sizeof begin - 1;
    ah_buffer_append(&whole, file.data, (size_t)(first - file.data));
    ah_buffer_append(&whole, tables.data, tables.size);
    ah_buffer_puts(&whole, last);
    if (getenv("AH_REGENERATE"))
        CHECK_OK(ah_file_write(page, whole.data, whole.size, &err), err);
    else if (strcmp(file.data, whole.data) != 0)
        fail_msg("%s is not what the code says; regenerate it: AH_REGENERATE=1 ctest -R "
                 "golden.schedule.activations",
                 page);
    ah_buffer_release(&file);
    ah_buffer_release(&tables);
    ah_buffer_release(&whole);
}
