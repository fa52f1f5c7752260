/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the families, as tables. Source: modeling_*.py of huggingface/transformers; for adapters,
 * save_and_load.py of huggingface/peft.
 *
 * gpt2 stores matrices as Conv1D, inputs by outputs, with q, k and v in one matrix. The other families store them as
 * nn.Linear, outputs by inputs, with q, k and v separate. Tables of tokens and positions are always entries by width.
 */
#include "runtime/model/weight_names.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The rows of one of our tensors that form a part. */
enum slice { ALL, QUERY, KEY, VALUE };

struct row {
    const char *ours;   /* name in ah_model_tensors() */
    const char *theirs; /* what follows the prefix or, in layers, the layer's number */
    enum slice slice;
    bool transposed;
};

static const struct row gpt2_rows[] = {
    {"embedding.weight", "wte.weight", ALL, false},
    {"position.weight", "wpe.weight", ALL, false},
    {"attention_norm.weight", "ln_1.weight", ALL, false},
    {"attention_norm.bias", "ln_1.bias", ALL, false},
    {"attention.qkv.weight", "attn.c_attn.weight", ALL, true},
    {"attention.qkv.bias", "attn.c_attn.bias", ALL, false},
    {"attention.output.weight", "attn.c_proj.weight", ALL, true},
    {"attention.output.bias", "attn.c_proj.bias", ALL, false},
    {"mlp_norm.weight", "ln_2.weight", ALL, false},
    {"mlp_norm.bias", "ln_2.bias", ALL, false},
    {"mlp.up.weight", "mlp.c_fc.weight", ALL, true},
    {"mlp.up.bias", "mlp.c_fc.bias", ALL, false},
    {"mlp.down.weight", "mlp.c_proj.weight", ALL, true},
    {"mlp.down.bias", "mlp.c_proj.bias", ALL, false},
    {"norm.weight", "ln_f.weight", ALL, false},
    {"norm.bias", "ln_f.bias", ALL, false},
    {0},
};

/* The tensors that have the same names in all families but gpt2. */
#define SHARED_ROWS                                                                                          \
    {"embedding.weight", "embed_tokens.weight", ALL, false},                                                 \
        {"attention.output.weight", "self_attn.o_proj.weight", ALL, false},                                  \
        {"attention.output.bias", "self_attn.o_proj.bias", ALL, false},                                      \
        {"mlp.down.weight", "mlp.down_proj.weight", ALL, false},                                             \
        {"mlp.down.bias", "mlp.down_proj.bias", ALL, false},                                                 \
    {                                                                                                        \
        "norm.weight", "norm.weight", ALL, false                                                             \
    }

/* Those of the families whose projections are separate. */
#define SEPARATE_ROWS                                                                                        \
    SHARED_ROWS, {"attention.qkv.weight", "self_attn.q_proj.weight", QUERY, false},                          \
        {"attention.qkv.weight", "self_attn.k_proj.weight", KEY, false},                                     \
        {"attention.qkv.weight", "self_attn.v_proj.weight", VALUE, false},                                   \
        {"attention.qkv.bias", "self_attn.q_proj.bias", QUERY, false},                                       \
        {"attention.qkv.bias", "self_attn.k_proj.bias", KEY, false},                                         \
        {"attention.qkv.bias", "self_attn.v_proj.bias", VALUE, false},                                       \
        {"attention.q_norm.weight", "self_attn.q_norm.weight", ALL, false},                                  \
        {"attention.k_norm.weight", "self_attn.k_norm.weight", ALL, false},                                  \
        {"mlp.gate.weight", "mlp.gate_proj.weight", ALL, false},                                             \
        {"mlp.gate.bias", "mlp.gate_proj.bias", ALL, false},                                                 \
        {"mlp.up.weight", "mlp.up_proj.weight", ALL, false},                                                 \
    {                                                                                                        \
        "mlp.up.bias", "mlp.up_proj.bias", ALL, false                                                        \
    }

static const struct row llama_rows[] = {
    SEPARATE_ROWS,
    {"attention_norm.weight", "input_layernorm.weight", ALL, false},
    {"mlp_norm.weight", "post_attention_layernorm.weight", ALL, false},
    {0},
};

static const struct row phi3_rows[] = {
    SHARED_ROWS,
    {"attention_norm.weight", "input_layernorm.weight", ALL, false},
    {"attention.qkv.weight", "self_attn.qkv_proj.weight", ALL, false},
    {"mlp_norm.weight", "post_attention_layernorm.weight", ALL, false},
    {"mlp.gate_up.weight", "mlp.gate_up_proj.weight", ALL, false},
    {0},
};

static const struct row olmo2_rows[] = {
    SEPARATE_ROWS,
    {"attention_post_norm.weight", "post_attention_layernorm.weight", ALL, false},
    {"mlp_post_norm.weight", "post_feedforward_layernorm.weight", ALL, false},
    {0},
};

static const struct row gemma_rows[] = {
    SEPARATE_ROWS,
    {"attention_norm.weight", "input_layernorm.weight", ALL, false},
    {"attention_post_norm.weight", "post_attention_layernorm.weight", ALL, false},
    {"mlp_norm.weight", "pre_feedforward_layernorm.weight", ALL, false},
    {"mlp_post_norm.weight", "post_feedforward_layernorm.weight", ALL, false},
    {0},
};

/* The names of the head's projection. In the files it has no prefix in any family. */
static const char head_ours[] = "head.weight", head_theirs[] = "lm_head.weight";

/* What comes before all names in files of adapters. */
static const char in_adapter[] = "base_model.model.";

/* Names that are not yet for files of adapters are shorter than this, so that what is added there fits. */
enum { PLAIN_MAX = AH_NAMES_NAME_MAX - sizeof in_adapter - sizeof "language_model." };

/* The spellings of names. A model that reads images has those of transformers since version 4.52, those before that and
 * of published files, and those of its text part alone. */
static const struct ah_names_spelling gpt2_spellings[] = {{"transformer.", ""}, {"", ""}, {NULL, NULL}};
static const struct ah_names_spelling spellings[] = {{"model.", ""}, {"", ""}, {NULL, NULL}};
static const struct ah_names_spelling multimodal_spellings[] = {{"model.language_model.", ""},
                                                                {"language_model.model.", "language_model."},
                                                                {"model.", ""},
                                                                {"", ""},
                                                                {NULL, NULL}};

/* What a model that reads images has beside its text part, after "model." or without. */
static const char *const outside[] = {"vision_tower.", "multi_modal_projector."};

struct family {
    const char *prefix;
    const char *layers; /* text before the number of a layer */
    const struct row *rows;
    const char *ignorable[3]; /* endings of names of tensors without learned values */
};

static const struct family families[] = {
    [AH_FAMILY_GPT2] = {"transformer.", "h.", gpt2_rows, {".attn.bias", ".attn.masked_bias", NULL}},
    [AH_FAMILY_LLAMA] = {"model.", "layers.", llama_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_MISTRAL] = {"model.", "layers.", llama_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_QWEN2] = {"model.", "layers.", llama_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_QWEN3] = {"model.", "layers.", llama_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_OLMO2] = {"model.", "layers.", olmo2_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_SMOLLM3] = {"model.", "layers.", llama_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_PHI3] = {"model.", "layers.", phi3_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_GEMMA2] = {"model.", "layers.", gemma_rows, {"rotary_emb.inv_freq", NULL}},
    [AH_FAMILY_GEMMA3] = {"model.", "layers.", gemma_rows, {"rotary_emb.inv_freq", NULL}},
};

/* Writes one text after the other. */
static void join(const char *first, const char *second, char ret_text[AH_NAMES_NAME_MAX])
{
    const size_t n = strlen(first), rest = strlen(second);
    assert(n + rest < AH_NAMES_NAME_MAX);
    memcpy(ret_text, first, n);
    memcpy(ret_text + n, second, rest + 1);
}

/* The row of a matrix that may have an adapter. */
static const struct row *row_of(const struct ah_model *model, enum ah_lora matrix)
{
    static const struct {
        const char *ours;
        enum slice slice;
    } of[AH_LORA_MATRICES] = {[AH_LORA_Q] = {"attention.qkv.weight", QUERY},
                              [AH_LORA_K] = {"attention.qkv.weight", KEY},
                              [AH_LORA_V] = {"attention.qkv.weight", VALUE},
                              [AH_LORA_QKV] = {"attention.qkv.weight", ALL},
                              [AH_LORA_OUTPUT] = {"attention.output.weight", ALL},
                              [AH_LORA_GATE] = {"mlp.gate.weight", ALL},
                              [AH_LORA_UP] = {"mlp.up.weight", ALL},
                              [AH_LORA_GATE_UP] = {"mlp.gate_up.weight", ALL},
                              [AH_LORA_DOWN] = {"mlp.down.weight", ALL}};
    const struct row *row = families[model->family].rows;
    while (row->ours && (strcmp(row->ours, of[matrix].ours) != 0 || row->slice != of[matrix].slice))
        row++;
    return row->ours ? row : NULL;
}

const char *ah_names_module(const struct ah_model *model, enum ah_lora matrix,
                            char ret_name[AH_NAMES_MODULE_MAX])
{
    const struct row *row = row_of(model, matrix);
    if (!row)
        return NULL;
    snprintf(ret_name, AH_NAMES_MODULE_MAX, "%.*s", (int)(strlen(row->theirs) - strlen(".weight")),
             row->theirs);
    return ret_name;
}

void ah_names_in_adapter(const struct ah_model *model, struct ah_names_part *part)
{
    char spelled[AH_NAMES_NAME_MAX];
    ah_names_spell(model, ah_names_spellings(model), part->name, spelled);
    join(in_adapter, spelled, part->name);
}

static void put_name(const struct ah_model *model, uint64_t block, const char *theirs,
                     char ret_name[AH_NAMES_NAME_MAX])
{
    const struct family *family = &families[model->family];
    int length;
    if (theirs == head_theirs)
        length = snprintf(ret_name, AH_NAMES_NAME_MAX, "%s", theirs);
    else if (ah_model_block_kind(model, block) == AH_BLOCK_LAYER)
        length = snprintf(ret_name, AH_NAMES_NAME_MAX, "%s%s%" PRIu64 ".%s", family->prefix, family->layers,
                          block - 1, theirs);
    else
        length = snprintf(ret_name, AH_NAMES_NAME_MAX, "%s%s", family->prefix, theirs);
    assert(length < AH_NAMES_NAME_MAX);
    (void)length;
}

static void put_rows(const struct ah_model *model, enum slice slice, uint64_t rows,
                     struct ah_names_part *part)
{
    uint64_t query = model->heads * model->head_dim;
    uint64_t key = model->kv_heads * model->head_dim;
    part->row = slice == VALUE ? query + key : slice == KEY ? query : 0;
    part->rows = slice == ALL ? rows : slice == QUERY ? query : key;
}

static void put_part(const struct ah_model *model, uint64_t block, const struct row *row,
                     const struct ah_model_tensor *tensor, struct ah_names_part *part)
{
    put_name(model, block, row->theirs, part->name);
    put_rows(model, row->slice, tensor->rows, part);
    part->cols = tensor->cols;
    part->transposed = row->transposed;
    part->n_shape = tensor->matrix ? 2 : 1;
    part->shape[0] = row->transposed ? part->cols : part->rows;
    part->shape[1] = row->transposed ? part->rows : part->cols;
}

/* Appends the parts of A or B of the adapters that are stored one above the other. Returns their number. */
static size_t put_adapters(const struct ah_model *model, uint64_t block, const struct ah_model_tensor *tensor,
                           size_t index, struct ah_names_part *parts)
{
    static const uint32_t qkv = 1u << AH_LORA_Q | 1u << AH_LORA_K | 1u << AH_LORA_V | 1u << AH_LORA_QKV;
    static const struct {
        const char *stem;
        uint32_t of;
    } stems[] = {{"attention.qkv.", qkv},
                 {"attention.output.", 1u << AH_LORA_OUTPUT},
                 {"mlp.gate_up.", 1u << AH_LORA_GATE | 1u << AH_LORA_UP | 1u << AH_LORA_GATE_UP},
                 {"mlp.down.", 1u << AH_LORA_DOWN}};
    const bool is_a = strcmp(strrchr(tensor->name, '.'), ".lora_a") == 0;
    size_t stem = 0, n = 0;
    uint64_t row = 0;
    while (strncmp(tensor->name, stems[stem].stem, strlen(stems[stem].stem)) != 0)
        stem++;
    for (unsigned i = 0; i < AH_LORA_MATRICES; i++) {
        char module[AH_NAMES_MODULE_MAX], theirs[AH_NAMES_MODULE_MAX + sizeof ".lora_A.weight"];
        if (!(stems[stem].of & ah_model_adapted(model) & UINT32_C(1) << i))
            continue;
        struct ah_names_part *part = &parts[n++];
        snprintf(theirs, sizeof theirs, "%s.lora_%c.weight", ah_names_module(model, (enum ah_lora)i, module),
                 is_a ? 'A' : 'B');
        *part = (struct ah_names_part){.tensor = index, .row = row, .cols = tensor->cols, .n_shape = 2};
        part->rows = is_a ? model->lora->rank : ah_model_lora_outputs(model, (enum ah_lora)i);
        part->shape[0] = part->rows;
        part->shape[1] = part->cols;
        put_name(model, block, theirs, part->name);
        ah_names_in_adapter(model, part);
        row += part->rows;
    }
    return n;
}

size_t ah_names_parts(const struct ah_model *model, uint64_t block,
                      struct ah_names_part ret_parts[AH_NAMES_PARTS_MAX])
{
    static const struct row head_rows[] = {{head_ours, head_theirs, ALL, false}, {0}};
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n = 0, n_tensors = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
    for (size_t i = 0; i < n_tensors; i++) {
        bool head = strcmp(tensors[i].name, head_ours) == 0;
        size_t before = n;
        if (tensors[i].adapter) {
            n += put_adapters(model, block, &tensors[i], i, &ret_parts[n]);
            continue;
        }
        for (const struct row *row = head ? head_rows : families[model->family].rows; row->ours; row++)
            if (strcmp(row->ours, tensors[i].name) == 0) {
                ret_parts[n] = (struct ah_names_part){.tensor = i};
                put_part(model, block, row, &tensors[i], &ret_parts[n++]);
            }
        assert(n > before);
        (void)before;
    }
    return n;
}

const char *ah_names_prefix(enum ah_family family)
{
    return families[family].prefix;
}

const struct ah_names_spelling *ah_names_spellings(const struct ah_model *model)
{
    return model->multimodal                 ? multimodal_spellings
           : model->family == AH_FAMILY_GPT2 ? gpt2_spellings
                                             : spellings;
}

void ah_names_spell(const struct ah_model *model, const struct ah_names_spelling *spelling, const char *name,
                    char ret_name[AH_NAMES_NAME_MAX])
{
    const char *prefix = families[model->family].prefix;
    const size_t length = strlen(prefix);
    const bool is_head = strcmp(name, head_theirs) == 0, is_plain = strncmp(name, prefix, length) == 0;
    join(is_head    ? spelling->head
         : is_plain ? spelling->prefix
                    : "",
         name + (is_plain ? length : 0), ret_name);
}

bool ah_names_unspell(const struct ah_model *model, const char *name, char ret_name[AH_NAMES_NAME_MAX])
{
    const char *prefix = families[model->family].prefix;
    for (const struct ah_names_spelling *i = ah_names_spellings(model); i->prefix; i++) {
        const size_t length = strlen(i->prefix), before = strlen(i->head);
        if (strncmp(name, i->head, before) == 0 && strcmp(name + before, head_theirs) == 0) {
            join("", head_theirs, ret_name);
            return true;
        }
        if (strncmp(name, i->prefix, length) == 0) {
            const bool fits = strlen(prefix) + strlen(name + length) < PLAIN_MAX;
            if (fits)
                join(prefix, name + length, ret_name);
            return fits;
        }
    }
    return false;
}

bool ah_names_is_outside(const struct ah_model *model, const char *name)
{
    static const char prefix[] = "model.";
    if (strncmp(name, prefix, sizeof prefix - 1) == 0)
        name += sizeof prefix - 1;
    for (size_t i = 0; i < sizeof outside / sizeof *outside && model->multimodal; i++)
        if (strncmp(name, outside[i], strlen(outside[i])) == 0)
            return true;
    return false;
}

bool ah_names_is_table(const struct ah_model *model, const char *name)
{
    char plain[AH_NAMES_NAME_MAX];
    return !ah_names_is_outside(model, name) && ah_names_unspell(model, name, plain) &&
           strcmp(plain + strlen(families[model->family].prefix), families[model->family].rows[0].theirs) ==
               0;
}

const char *ah_names_head(void)
{
    return head_theirs;
}

bool ah_names_ignorable(enum ah_family family, const char *name)
{
    size_t length = strlen(name);
    for (const char *const *end = families[family].ignorable; *end; end++)
        if (length >= strlen(*end) && strcmp(name + length - strlen(*end), *end) == 0)
            return true;
    return false;
}
