/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a job from a model and its training: sorts blocks into groups, then sizes the groups.
 *
 * Blocks with equal keys form a group. A hash table finds the group of a key, so the time per block does not grow with
 * the number of groups.
 */
#include "runtime/schedule/job.h"

#include "runtime/schedule/flat.h"
#include "runtime/schedule/program.h"
#include "runtime/schedule/trainable.h"

#include <stdio.h>
#include <string.h>

#define BYTES_LIMIT  9007199254740992.0 /* 2^53, the largest number of bytes in documents */
#define LOGITS_BYTES (UINT64_C(256) << 20)

enum { CHUNK_TOKENS_MIN = 64 };

static int check_training(const struct ah_model *model, const struct ah_plan_training *training,
                          struct ah_error *err)
{
    const unsigned long long batch = training->batch, parts = training->micro_batches, seq = training->seq;
    if (!batch)
        return ah_error_set(err, AH_E_USAGE, "batch is 0; a step needs at least one sequence");
    if (!parts || batch % parts)
        return ah_error_set(err, AH_E_USAGE,
                            "micro_batches '%llu' does not divide batch '%llu'; choose one of its divisors",
                            parts, batch);
    if (!seq)
        return ah_error_set(err, AH_E_USAGE, "seq is 0; a sequence needs at least one token");
    if (model->position == AH_POSITION_LEARNED && seq > model->max_positions)
        return ah_error_set(
            err, AH_E_USAGE,
            "seq '%llu' is longer than the %llu learned positions of model '%s'; choose a shorter one", seq,
            (unsigned long long)model->max_positions, model->name ? model->name : "");
    uint64_t tokens;
    if (__builtin_mul_overflow(batch / parts, seq, &tokens) || tokens > UINT32_MAX)
        return ah_error_set(
            err, AH_E_DOCUMENT,
            "a micro-batch of %llu sequences of %llu tokens has 2^32 tokens or more; use more micro_batches",
            batch / parts, seq);
    return AH_OK;
}

static int check_tied(const struct ah_model *model, const struct ah_plan_training *training,
                      bool table_trained, struct ah_error *err)
{
    if (training->tied == AH_TIED_JOINT || (model->tied && table_trained))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "training.tied is 'split', but the %s of model '%s' %s; leave it out",
                        model->tied ? "table" : "head", model->name ? model->name : "",
                        model->tied ? "is frozen" : "has a table of its own");
}

/* Refuses jobs with a tensor whose size comes near the limit of 64 bits. */
static int check_sizes(const struct ah_job *job, struct ah_error *err)
{
    const struct ah_model *model = job->model;
    double query = (double)model->heads * (double)model->head_dim;
    double widest = (double)model->width + 3 * query + (double)model->mlp_width;
    uint64_t parameters;
    int rc = ah_model_count(model, &parameters, err);
    if (!rc && (widest * (double)job->tokens * 64 >= BYTES_LIMIT * 512 ||
                (double)parameters * 16 >= BYTES_LIMIT * 512))
        rc = ah_error_set(err, AH_E_DOCUMENT,
                          "model '%s' with micro-batches of %llu tokens needs more than 2^53 bytes",
                          model->name ? model->name : "", (unsigned long long)job->tokens);
    return rc;
}

/* Returns the largest power of two of tokens whose logits need at most LOGITS_BYTES, but no less than CHUNK_TOKENS_MIN.
 * It depends only on the model, because the chunk decides the bits of sums. */
static uint64_t chunk_tokens(const struct ah_model *model)
{
    uint64_t chunk = CHUNK_TOKENS_MIN;
    while (chunk * 2 * model->vocabulary * sizeof(float) <= LOGITS_BYTES)
        chunk *= 2;
    return chunk;
}

/* ---- groups ---- */

struct key {
    enum ah_block_kind kind;
    struct ah_model_ways ways;
    bool backward, input_gradient;
    uint32_t trained;
};

static uint64_t key_number(const struct key *key)
{
    return (uint64_t)key->trained << 6 | (uint64_t)key->kind << 4 | (uint64_t)key->ways.unrotated << 3 |
           (uint64_t)key->ways.windowed << 2 | (uint64_t)key->backward << 1 | (uint64_t)key->input_gradient;
}

static struct key key_of_group(const struct ah_job_group *group)
{
    return (struct key){group->kind, group->ways, group->backward, group->input_gradient, group->trained};
}

/* A hash table with open addressing. A slot has a group's number + 1; 0 marks a free slot. */
struct group_index {
    uint32_t *slots;
    uint64_t mask;
};

static uint32_t *find_slot(const struct group_index *index, const struct ah_job *job, const struct key *key)
{
    uint64_t number = key_number(key);
    uint64_t at = (number * UINT64_C(0x9e3779b97f4a7c15) >> 32) & index->mask;
    while (index->slots[at]) {
        struct key other = key_of_group(&job->groups[index->slots[at] - 1]);
        if (key_number(&other) == number)
            break;
        at = (at + 1) & index->mask;
    }
    return &index->slots[at];
}

/* Sorts the blocks into groups. `ways` and `trained` are indexed by block of the model; `lowest` is one. */
static void make_groups(struct ah_job *job, const struct ah_model_ways *ways, const uint32_t *trained,
                        size_t lowest, const struct group_index *index)
{
    for (size_t block = 0; block < job->n_blocks; block++) {
        size_t at = job->part.first_block + block;
        struct key key = {ah_model_block_kind(job->model, at), ways[at], at >= lowest, at > lowest,
                          trained[at]};
        uint32_t *slot = find_slot(index, job, &key);
        if (!*slot) {
            job->groups[job->n_groups] = (struct ah_job_group){.kind = key.kind,
                                                               .ways = key.ways,
                                                               .backward = key.backward,
                                                               .input_gradient = key.input_gradient,
                                                               .trained = key.trained,
                                                               .first = block};
            *slot = (uint32_t)++job->n_groups;
        }
        job->group_of[block] = *slot - 1;
        job->groups[*slot - 1].blocks++;
    }
}

/* Returns the suffix of a group's name. */
static const char *group_state(const struct ah_job_group *group)
{
    if (!group->backward)
        return ".forward";
    if (!group->trained_parameters)
        return ".frozen";
    return group->trained_parameters < group->parameters ? ".partial" : "";
}

/* Names the groups. Partial layer groups of one kind are numbered, except the first: ".partial", ".partial2". */
static int name_groups(struct ah_job *job, struct ah_arena *arena, struct ah_error *err)
{
    static const char *const kinds[] = {"embedding", "layer", "head"};
    static const char *const ways[2][2] = {{"", "_unrotated"}, {"_windowed", "_windowed_unrotated"}};
    /* partial layer groups so far, by ways and by whether the group is lowest */
    size_t counts[2][2][2] = {{{0}}};
    for (size_t i = 0; i < job->n_groups; i++) {
        struct ah_job_group *group = &job->groups[i];
        const char *state = group_state(group);
        bool lowest = group->kind == AH_BLOCK_LAYER && group->backward && !group->input_gradient;
        char name[64], number[24] = "";
        bool counted = group->kind == AH_BLOCK_LAYER && !strcmp(state, ".partial");
        size_t *count = &counts[group->ways.windowed][group->ways.unrotated][lowest];
        if (counted && (*count)++)
            snprintf(number, sizeof number, "%zu", *count);
        snprintf(name, sizeof name, "%s%s%s%s%s", kinds[group->kind],
                 ways[group->ways.windowed][group->ways.unrotated], state, number, lowest ? ".lowest" : "");
        group->name = ah_arena_strdup(arena, name);
        if (!group->name)
            return ah_error_memory(err);
    }
    return AH_OK;
}

static void size_vectors(const struct ah_job *job, struct ah_job_group *group)
{
    struct ah_flat flat = ah_flat_of(job->model, group->kind, group->trained);
    group->parameters = flat.parameters;
    group->trained_parameters = flat.trained_parameters;
    group->flat_elements = flat.elements;
    group->trained_elements = flat.trained_elements;
}

/* Returns the bytes of all data of all blocks of the group. */
static double group_bytes(const struct ah_job *job, const struct ah_job_group *group)
{
    double each = (double)group->flat_elements * (double)(job->weight_bytes + 4) +
                  (double)group->trained_elements * (double)(job->gradient_bytes + job->state_bytes + 4) +
                  (double)group->input_bytes + (double)group->gathered_bytes;
    for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
        each += (double)group->saved_bytes[way] + (double)group->forward_work_bytes[way] +
                (double)group->backward_work_bytes[way];
    return each * (double)group->blocks * (double)job->training.micro_batches;
}

static int size_group(const struct ah_job *job, struct ah_job_group *group, struct ah_error *err)
{
    struct ah_program_sizes sizes;
    int rc = ah_program_measure(job, group, &sizes, err);
    if (rc)
        return rc;
    memcpy(group->saved_bytes, sizes.saved_bytes, sizeof sizes.saved_bytes);
    memcpy(group->forward_work_bytes, sizes.forward_work_bytes, sizeof sizes.forward_work_bytes);
    memcpy(group->backward_work_bytes, sizes.backward_work_bytes, sizeof sizes.backward_work_bytes);
    if (group->kind != AH_BLOCK_EMBEDDING) {
        group->input_bytes = job->residual_bytes;
        return AH_OK;
    }
    bool learned = job->model->position == AH_POSITION_LEARNED;
    uint64_t rows = job->tokens + (learned ? job->training.seq : 0);
    group->gathered_bytes = rows * job->model->width * job->weight_bytes;
    return AH_OK;
}

static int size_groups(struct ah_job *job, struct ah_arena *arena, struct ah_error *err)
{
    double total = 0;
    for (size_t i = 0; i < job->n_groups; i++)
        size_vectors(job, &job->groups[i]);
    int rc = name_groups(job, arena, err);
    for (size_t i = 0; i < job->n_groups && !rc; i++) {
        rc = size_group(job, &job->groups[i], err);
        total += group_bytes(job, &job->groups[i]);
    }
    if (!rc && total >= BYTES_LIMIT)
        rc = ah_error_set(
            err, AH_E_DOCUMENT,
            "model '%s' with batch '%llu' and seq '%llu' needs 2^53 bytes or more; choose smaller ones",
            job->model->name ? job->model->name : "", (unsigned long long)job->training.batch,
            (unsigned long long)job->training.seq);
    return rc;
}

/* ---- the job ---- */

static void size_job(struct ah_job *job)
{
    const struct ah_model *model = job->model;
    const struct ah_plan_training *training = &job->training;
    const uint64_t ropes = model->position != AH_POSITION_ROPE ? 0 : model->window_rope ? 2 : 1;
    job->tokens = training->batch / training->micro_batches * training->seq;
    job->chunk_tokens = chunk_tokens(model);
    job->weight_bytes = job->gradient_bytes = ah_dtype_bytes(training->dtype);
    job->state_bytes =
        2 * ah_dtype_bytes(training->state_dtype) + (training->dtype == AH_BF16 ? sizeof(float) : 0);
    job->residual_bytes = job->tokens * model->width * job->weight_bytes;
    job->input_bytes = ah_job_input_bytes(job->tokens);
    job->header_bytes = (AH_JOB_SCALARS_BYTES + training->micro_batches * sizeof(double) + 63) / 64 * 64;
    job->constant_bytes = ropes * training->seq * model->head_dim * sizeof(float) +
                          (uint64_t)job->n_blocks * sizeof(double) + 2 * job->header_bytes;
}

static size_t lowest_trained(size_t n_blocks, const uint32_t *trained)
{
    size_t block = 0;
    while (block + 1 < n_blocks && !trained[block])
        block++;
    return block;
}

/* Returns the lowest block of the part whose backward runs. `lowest` is that block of the whole model. */
static size_t lowest_of_part(const struct ah_job *job, size_t lowest)
{
    size_t first = job->part.first_block;
    if (lowest <= first)
        return 0;
    return lowest - first < job->n_blocks ? lowest - first : job->n_blocks;
}

/* Returns the mask of a copy of the table. It is trained if the table is, because patterns name only the table. */
static uint32_t copy_trained(const struct ah_job *job)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    const size_t last = ah_model_tensors(job->model, AH_BLOCK_HEAD, tensors) - 1;
    return (uint32_t)job->table_trained << last;
}

/* Checks that A and B of each adapter are trained together. */
static int check_adapters(const struct ah_model *model, const uint32_t *trained, struct ah_error *err)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    char name[AH_TRAINABLE_NAME_MAX];
    for (uint64_t block = 0; model->lora && block < ah_model_blocks(model); block++) {
        const size_t n = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
        for (size_t i = 0; i + 1 < n; i++) {
            if (!tensors[i].adapter)
                continue;
            const bool a = trained[block] >> i & 1, b = trained[block] >> (i + 1) & 1;
            ah_trainable_name(model, block, tensors[a ? i : i + 1].name, name, sizeof name);
            if (a != b)
                return ah_error_set(err, AH_E_USAGE,
                                    "trainable: '%s' is trained alone; train both parts of its adapter, as "
                                    "'*.lora_*' does",
                                    name);
            i++;
        }
    }
    return AH_OK;
}

/* Makes and sizes the groups. Patterns name the tensors of model `given`. */
static int init_groups(struct ah_job *job, const struct ah_model *given, struct ah_arena *arena,
                       struct ah_error *err)
{
    size_t n = ah_model_blocks(job->model), slots = 1;
    while (slots < 2 * n)
        slots *= 2;
    struct ah_arena memory = {0};
    uint32_t *trained = ah_arena_array(&memory, n, sizeof *trained);
    struct ah_model_ways *ways = ah_arena_array(&memory, n, sizeof *ways);
    struct group_index index = {ah_arena_array(&memory, slots, sizeof *index.slots), slots - 1};
    struct ah_job_group *groups = ah_arena_array(&memory, n, sizeof *groups);
    int rc = AH_E_MEMORY;
    job->group_of = ah_arena_array(arena, n, sizeof *job->group_of);
    if (!trained || !ways || !index.slots || !groups || !job->group_of) {
        ah_error_memory(err);
        goto done;
    }
    rc = ah_trainable_match(given, job->training.trainable, job->training.n_trainable, trained, err);
    rc = rc ? rc : check_tied(given, &job->training, trained[0] & 1, err);
    rc = rc ? rc : check_adapters(given, trained, err);
    if (rc)
        goto done;
    size_t lowest = lowest_trained(n, trained);
    job->table_trained = trained[0] & 1;
    if (job->copies_table)
        trained[n - 1] |= copy_trained(job);
    job->lowest = lowest_of_part(job, lowest);
    ah_model_list_ways(job->model, ways + 1);
    job->groups = groups;
    make_groups(job, ways, trained, lowest, &index);
    job->groups = ah_arena_array(arena, job->n_groups, sizeof *groups);
    rc = job->groups ? AH_OK : ah_error_memory(err);
    if (!rc)
        memcpy(job->groups, groups, job->n_groups * sizeof *groups);
done:
    ah_arena_release(&memory);
    return rc;
}

/* ---- ranks that share blocks ---- */

static void divide_by_tp(const struct ah_job *job, uint64_t *amount)
{
    *amount = *amount / job->part.tp + (*amount % job->part.tp != 0);
}

/* Divides sizes by `tp`, rounding up, so that they count for one rank instead of `tp` ranks together. */
static void share_job(struct ah_job *job)
{
    divide_by_tp(job, &job->residual_bytes);
    for (size_t i = 0; i < job->n_groups; i++) {
        struct ah_job_group *group = &job->groups[i];
        uint64_t *const amounts[] = {&group->parameters,    &group->trained_parameters,
                                     &group->flat_elements, &group->trained_elements,
                                     &group->input_bytes,   &group->gathered_bytes};
        for (size_t k = 0; k < sizeof amounts / sizeof *amounts; k++)
            divide_by_tp(job, amounts[k]);
        for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
            divide_by_tp(job, &group->saved_bytes[way]);
            divide_by_tp(job, &group->forward_work_bytes[way]);
            divide_by_tp(job, &group->backward_work_bytes[way]);
        }
    }
}

static void own_parts(struct ah_job *job)
{
    const uint64_t shards = ah_job_shards(job);
    for (size_t i = 0; i < job->n_groups; i++) {
        struct ah_job_group *group = &job->groups[i];
        const uint64_t frozen = group->flat_elements - group->trained_elements;
        group->own_trained_elements = ah_flat_shard(group->trained_elements, shards, 0).end;
        group->own_flat_elements = group->own_trained_elements + ah_flat_shard(frozen, shards, 0).end;
        group->own_trained_parameters = (group->trained_parameters + shards - 1) / shards;
    }
}

/* Replaces a tied model by an untied one, unless its head uses the embedding's own table. */
static int split_table(struct ah_job *job, struct ah_arena *arena, struct ah_error *err)
{
    const bool whole = !job->part.first_block && job->has_head;
    if (!job->model->tied || (whole && !ah_job_splits_table(job)))
        return AH_OK;
    struct ah_model *untied = ah_arena_array(arena, 1, sizeof *untied);
    if (!untied)
        return ah_error_memory(err);
    *untied = *job->model;
    untied->tied = false;
    job->model = untied;
    job->copies_table = job->has_head;
    return AH_OK;
}

int ah_job_init(struct ah_job *ret_job, const struct ah_model *model, const struct ah_plan_training *training,
                struct ah_arena *arena, struct ah_error *err)
{
    return ah_job_init_part(ret_job, model, training, NULL, arena, err);
}

int ah_job_init_part(struct ah_job *ret_job, const struct ah_model *model,
                     const struct ah_plan_training *training, const struct ah_plan_part *part,
                     struct ah_arena *arena, struct ah_error *err)
{
    const uint64_t blocks = ah_model_blocks(model);
    const struct ah_plan_part whole = {.blocks = blocks, .tp = 1, .stages = 1};
    struct ah_job job = {.model = model,
                         .training = *training,
                         .is_part = part && !part->shards,
                         .part = part ? *part : whole};
    job.n_blocks = job.part.blocks;
    job.has_head = job.part.first_block + job.n_blocks == blocks;
    job.adds_up = (job.part.step_micro_batches ? job.part.step_micro_batches : training->micro_batches) > 1 ||
                  ah_job_splits_table(&job) || ah_job_shards(&job) > 1;
    int rc = check_training(model, training, err);
    if (rc)
        return rc;
    size_job(&job);
    rc = check_sizes(&job, err);
    if (!rc)
        rc = split_table(&job, arena, err);
    if (!rc)
        rc = init_groups(&job, model, arena, err);
    if (!rc)
        rc = size_groups(&job, arena, err);
    if (!rc && job.part.tp > 1)
        share_job(&job);
    if (!rc) {
        own_parts(&job);
        *ret_job = job;
    }
    return rc;
}

bool ah_job_trains(const struct ah_job *job)
{
    size_t group = 0;
    while (group < job->n_groups && !job->groups[group].trained_elements)
        group++;
    return group < job->n_groups;
}

size_t ah_job_tensor_name(const struct ah_job *job, size_t block, const char *tensor, char *ret_name,
                          size_t max)
{
    return ah_trainable_name(job->model, block, tensor, ret_name, max);
}
