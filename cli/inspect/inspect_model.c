/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a model. A parameter takes 2 bytes as bf16 and 4 as fp32. AdamW keeps m and v in fp32 and, if the weight is
 * bf16, an fp32 master.
 */
#include "cli/inspect/inspect.h"
#include "cli/inspect/plan_summary.h"

#include "base/units.h"
#include "schemas/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BF16_BYTES = 2, FP32_BYTES = 4, MOMENTS_BYTES = 8, DIGITS_MAX = 32 };

/* Prints "6,738,415,616". Returns `out`. */
static const char *print_exact(char out[DIGITS_MAX], uint64_t value)
{
    char digits[DIGITS_MAX];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value);
    char *to = out;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

static void put_scaling(struct ah_buffer *text, const struct ah_model_rope *rope)
{
    if (rope->kind == AH_ROPE_LONGROPE)
        ah_buffer_printf(text, ", longrope beyond %" PRIu64 " positions", rope->original_positions);
    else if (rope->kind != AH_ROPE_DEFAULT)
        ah_buffer_printf(text, ", %s scaling by %g", ah_words_rope[rope->kind], rope->factor);
}

static void put_positions(struct ah_table *facts, const struct ah_model *model)
{
    ah_table_cell(facts, "positions");
    if (!model->rope) {
        ah_table_cell(facts, "%" PRIu64 ", %s", model->max_positions, ah_words_position[model->position]);
        return;
    }
    struct ah_buffer text = {0};
    ah_buffer_printf(&text, "%" PRIu64 ", rope with theta %g", model->max_positions, model->rope->theta);
    put_scaling(&text, model->rope);
    if (model->rope->rotated)
        ah_buffer_printf(&text, ", on %" PRIu64 " of a head's %" PRIu64, model->rope->rotated,
                         model->head_dim);
    if (model->window_rope) {
        ah_buffer_printf(&text, "; in layers with a window theta %g", model->window_rope->theta);
        put_scaling(&text, model->window_rope);
    }
    if (model->n_unrotated_layers)
        ah_buffer_printf(&text, "; none in %zu layers", model->n_unrotated_layers);
    ah_table_cell(facts, "%s", text.failed ? "" : text.data);
    facts->failed = facts->failed || text.failed;
    ah_buffer_release(&text);
}

static void put_extras(struct ah_table *facts, const struct ah_model *model)
{
    const struct {
        bool present;
        const char *what;
    } extras[] = {
        {model->tied, "head tied to the embedding"},
        {model->qkv_bias, "bias on q, k, v"},
        {model->attention_output_bias, "bias on the attention output"},
        {model->mlp_bias, "bias in the MLP"},
        {model->qk_norm, "norm of q and k"},
        {model->norm_offset, "gains of 1 + weight"},
        {model->embedding_scaled, "scaled embedding"},
        {model->score_cap > 0, "capped scores"},
        {model->logit_cap > 0, "capped logits"},
    };
    char text[256] = "";
    for (size_t i = 0; i < sizeof extras / sizeof extras[0]; i++)
        if (extras[i].present)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? ", " : "",
                     extras[i].what);
    if (*text) {
        ah_table_cell(facts, "with");
        ah_table_cell(facts, "%s", text);
    }
    if (model->window) {
        ah_table_cell(facts, "window");
        ah_table_cell(facts, "%" PRIu64 " tokens in %s", model->window,
                      model->n_window_layers ? "some layers" : "every layer");
    }
    if (model->padding_token != AH_MODEL_NO_PADDING) {
        ah_table_cell(facts, "padding");
        ah_table_cell(facts, "token %" PRIu64 ", which gets no gradient in the embedding",
                      model->padding_token);
    }
}

static void put_lora(struct ah_table *facts, const struct ah_model *model)
{
    struct ah_buffer text = {0};
    ah_plan_put_lora(&text, "", model);
    ah_table_cell(facts, "trained");
    ah_table_cell(facts, "%s", text.failed ? "" : text.data);
    facts->failed = facts->failed || text.failed;
    ah_buffer_release(&text);
}

static void put_facts(struct ah_cli *cli, const struct ah_model *model)
{
    char digits[DIGITS_MAX];
    struct ah_table facts = ah_inspect_facts(cli);
    ah_table_cell(&facts, "model");
    ah_table_cell(&facts, "%s (%s%s)", model->name, ah_words_family[model->family],
                  model->multimodal ? ", the text part of a model that reads images" : "");
    ah_table_cell(&facts, "parameters");
    ah_table_cell(&facts, "%s", print_exact(digits, ah_model_parameters(model)));
    ah_table_cell(&facts, "layers");
    ah_table_cell(&facts, "%" PRIu64 " of width %" PRIu64, model->layers, model->width);
    ah_table_cell(&facts, "attention");
    ah_table_cell(&facts, "%" PRIu64 " heads of %" PRIu64 ", %" PRIu64 " for keys and values", model->heads,
                  model->head_dim, model->kv_heads);
    ah_table_cell(&facts, "MLP");
    ah_table_cell(&facts, "width %" PRIu64 ", %s", model->mlp_width,
                  ah_words_model_activation[model->activation]);
    ah_table_cell(&facts, "norm");
    static const char *const places[] = {[AH_NORM_BEFORE] = "",
                                         [AH_NORM_AFTER] = ", after attention and MLP",
                                         [AH_NORM_AROUND] = ", before and after attention and MLP"};
    ah_table_cell(&facts, "%s, epsilon %g%s", ah_words_model_norm[model->norm], model->norm_epsilon,
                  places[model->norm_place]);
    ah_table_cell(&facts, "vocabulary");
    ah_table_cell(&facts, "%" PRIu64, model->vocabulary);
    put_positions(&facts, model);
    put_extras(&facts, model);
    if (model->lora)
        put_lora(&facts, model);
    ah_table_print(&facts, &cli->out, cli->out_style, cli->table_columns);
}

/* Adds cells with the bytes of `parameters` in each way of storing them. */
static void size_cells(struct ah_table *table, uint64_t parameters)
{
    static const unsigned bytes[] = {BF16_BYTES, FP32_BYTES, MOMENTS_BYTES};
    char text[AH_UNITS_TEXT_MAX];
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        ah_table_cell(table, "%s", ah_units_print_bytes(text, parameters * bytes[i]));
}

static void put_groups(struct ah_cli *cli, const struct ah_model *model)
{
    struct ah_model_group groups[AH_MODEL_GROUPS_MAX];
    size_t n = ah_model_groups(model, groups);
    char digits[DIGITS_MAX];
    struct ah_table table = {
        .arena = &cli->arena,
        .columns = {"group", ">blocks", ">parameters each", ">weights bf16", ">weights fp32",
                    ">m and v fp32"},
    };
    for (size_t i = 0; i < n; i++) {
        ah_table_cell(&table, "%s", groups[i].name);
        ah_table_cell(&table, "%" PRIu64, groups[i].blocks);
        ah_table_cell(&table, "%s", print_exact(digits, groups[i].parameters));
        size_cells(&table, groups[i].parameters);
    }
    ah_table_cell(&table, "whole model");
    ah_table_cell(&table, "%" PRIu64, ah_model_blocks(model));
    ah_table_cell(&table, "%s", print_exact(digits, ah_model_parameters(model)));
    size_cells(&table, ah_model_parameters(model));
    ah_inspect_table(cli, "sizes of one block of each group", &table);
}

static void put_training(struct ah_cli *cli, uint64_t parameters)
{
    char bf16[AH_UNITS_TEXT_MAX];
    char fp32[AH_UNITS_TEXT_MAX];
    size_t mark = cli->out.size;
    ah_buffer_printf(&cli->out,
                     "\nTraining keeps %s in bf16 (weight, fp32 master, m, v), %s in fp32 (weight, m, "
                     "v),\nplus gradients and activations.\n",
                     ah_units_print_bytes(bf16, parameters * (BF16_BYTES + FP32_BYTES + MOMENTS_BYTES)),
                     ah_units_print_bytes(fp32, parameters * (FP32_BYTES + MOMENTS_BYTES)));
    ah_cli_fit(cli, mark, 0);
}

void ah_inspect_model_text(struct ah_cli *cli, const struct ah_document *document)
{
    const struct ah_model *model = document->body.model;
    put_facts(cli, model);
    put_groups(cli, model);
    put_training(cli, ah_model_parameters(model));
}

static void emit_group(struct ah_emit *emit, const struct ah_model_group *group)
{
    ah_emit_open(emit, NULL, '{');
    ah_emit_text(emit, "name", group->name);
    ah_emit_integer(emit, "first_block", group->first);
    ah_emit_integer(emit, "blocks", group->blocks);
    ah_emit_integer(emit, "parameters_per_block", group->parameters);
    ah_emit_integer(emit, "parameters", group->parameters * group->blocks);
    ah_emit_integer(emit, "weights_bf16_bytes", group->parameters * BF16_BYTES);
    ah_emit_integer(emit, "weights_fp32_bytes", group->parameters * FP32_BYTES);
    ah_emit_integer(emit, "moments_fp32_bytes", group->parameters * MOMENTS_BYTES);
    ah_emit_close(emit);
}

void ah_inspect_model_json(struct ah_emit *emit, const struct ah_document *document)
{
    const struct ah_model *model = document->body.model;
    struct ah_model_group groups[AH_MODEL_GROUPS_MAX];
    size_t n = ah_model_groups(model, groups);
    ah_emit_text(emit, "name", model->name);
    ah_emit_text(emit, "family", ah_words_family[model->family]);
    ah_emit_integer(emit, "parameters", ah_model_parameters(model));
    ah_emit_integer(emit, "layers", model->layers);
    ah_emit_integer(emit, "blocks", ah_model_blocks(model));
    ah_emit_integer(emit, "width", model->width);
    ah_emit_integer(emit, "heads", model->heads);
    ah_emit_integer(emit, "kv_heads", model->kv_heads);
    ah_emit_integer(emit, "head_dim", model->head_dim);
    ah_emit_integer(emit, "mlp_width", model->mlp_width);
    ah_emit_integer(emit, "vocabulary", model->vocabulary);
    ah_emit_integer(emit, "max_positions", model->max_positions);
    ah_emit_bool(emit, "tied", model->tied);
    ah_plan_emit_lora(emit, model);
    ah_emit_open(emit, "groups", '[');
    for (size_t i = 0; i < n; i++)
        emit_group(emit, &groups[i]);
    ah_emit_close(emit);
}
