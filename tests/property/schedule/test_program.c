/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of every example, in both dtypes, with random sets of trained tensors, executed by a machine that only knows
 * the contents of bytes. An op may read a place only if all of it was written and has not been overwritten since. The
 * devices must accept every op (ah_op_check), with its operands where the program puts them.
 */
#include "runtime/schedule/flat.h"
#include "runtime/schedule/layout.h"
#include "runtime/schedule/program.h"
#include "tests/property/schedule/jobs.h"

#include <math.h>
#include <stdlib.h>

enum { SETS = 4, COLUMNS_MAX = 8, INSTANTS_MAX = 2 * AH_PROGRAM_STEPS_MAX };

/* Columns of a place that hold values, in bytes of a row. */
struct columns {
    uint64_t from[COLUMNS_MAX], to[COLUMNS_MAX];
    size_t n;
};

struct machine {
    const struct ah_program *program;
    struct columns valid[AH_PROGRAM_PLACES_MAX];
    bool written[AH_PROGRAM_PLACES_MAX];
    uint64_t width[AH_PROGRAM_PLACES_MAX]; /* bytes in a row of a place used by columns; else 0 */
    uint64_t home_at[AH_HOMES];            /* where each home begins in the arena */
    uint64_t data_at[AH_PROGRAM_PLACES_MAX];
    uint64_t arena_bytes;
    int first[AH_PROGRAM_PLACES_MAX], last[AH_PROGRAM_PLACES_MAX]; /* instants of access */
    int instants;
};

static uint64_t up(uint64_t bytes)
{
    return (bytes + AH_LAYOUT_ALIGN - 1) / AH_LAYOUT_ALIGN * AH_LAYOUT_ALIGN;
}

static void add_columns(struct columns *columns, uint64_t from, uint64_t to)
{
    assert_true(columns->n < COLUMNS_MAX);
    columns->from[columns->n] = from;
    columns->to[columns->n++] = to;
}

static bool covers(const struct columns *columns, uint64_t from, uint64_t to)
{
    bool moved = true;
    while (from < to && moved) {
        moved = false;
        for (size_t i = 0; i < columns->n; i++)
            if (columns->from[i] <= from && columns->to[i] > from) {
                from = columns->to[i];
                moved = true;
            }
    }
    return from >= to;
}

static bool is_ours(const struct ah_program_place *place)
{
    return place->home == AH_HOME_SCRATCH || place->home == AH_HOME_SAVED;
}

static void lay_homes(struct machine *m)
{
    const struct ah_program *program = m->program;
    uint64_t bytes[AH_HOMES] = {
        [AH_HOME_SCRATCH] = program->scratch_bytes, [AH_HOME_SAVED] = program->saved_bytes};
    for (size_t i = 0; i < program->n_places; i++) {
        const struct ah_program_place *place = &program->places[i];
        if (is_ours(place))
            assert_true(place->offset_bytes + place->bytes <= bytes[place->home]);
        else if (place->home != AH_HOME_DATA && place->offset_bytes + place->bytes > bytes[place->home])
            bytes[place->home] = place->offset_bytes + place->bytes;
    }
    for (size_t home = 0; home < AH_HOMES; home++) {
        m->home_at[home] = m->arena_bytes;
        m->arena_bytes += up(bytes[home]);
    }
    for (size_t i = 0; i < program->n_places; i++) {
        m->data_at[i] = m->arena_bytes;
        if (program->places[i].home == AH_HOME_DATA)
            m->arena_bytes += up(program->places[i].bytes);
    }
}

/* Marks what exists when a pass begins. */
static void fill_homes(struct machine *m, enum ah_pass pass, bool head, bool tied)
{
    for (size_t i = 0; i < m->program->n_places; i++) {
        const struct ah_program_place *place = &m->program->places[i];
        bool there = place->home == AH_HOME_INPUT || place->home == AH_HOME_WEIGHTS ||
                     place->home == AH_HOME_TABLE || place->home == AH_HOME_DATA ||
                     (place->home == AH_HOME_SAVED && pass == AH_PASS_BACKWARD) ||
                     (place->home == AH_HOME_RESIDUAL_GRADIENT && !head) ||
                     (tied && place->home == AH_HOME_GRADIENTS && !strcmp(place->name, "embedding.weight"));
        if (there && strcmp(place->name, "loss_sum") != 0)
            add_columns(&m->valid[i], 0, UINT64_MAX);
        m->first[i] = m->last[i] = -1;
    }
}

static void clobber(struct machine *m, size_t writer)
{
    const struct ah_program_place *mine = &m->program->places[writer];
    for (size_t i = 0; i < m->program->n_places && is_ours(mine); i++) {
        const struct ah_program_place *other = &m->program->places[i];
        if (i != writer && other->home == mine->home &&
            other->offset_bytes < mine->offset_bytes + mine->bytes &&
            mine->offset_bytes < other->offset_bytes + other->bytes)
            m->valid[i].n = 0;
    }
}

/* Finds the columns of a row covered by an operand: its own columns, or all. */
static void operand_columns(struct machine *m, const struct ah_program_op *op,
                            const struct ah_operand *operand, size_t arg, uint64_t *from, uint64_t *to)
{
    uint64_t *width = &m->width[op->place[arg]];
    bool part = op->op.arg[arg].row_stride != 0;
    *width = part ? operand->stride_bytes : *width;
    *from = part ? op->op.arg[arg].offset_bytes % operand->stride_bytes : 0;
    *to = part ? *from + operand->row_bytes : *width ? *width : UINT64_MAX;
}

static void touch(struct machine *m, size_t place)
{
    m->first[place] = m->first[place] < 0 ? m->instants : m->first[place];
    m->last[place] = m->instants;
}

static void do_op(struct machine *m, const struct ah_program_op *op, bool first)
{
    struct ah_operand operands[AH_OP_ARGS];
    struct ah_error err = {0};
    CHECK_OK(ah_op_operands(&op->op, operands, &err), err);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        enum ah_role role = operands[i].role;
        uint64_t from, to;
        assert_int_equal(role == AH_ROLE_NONE, op->place[i] == AH_PROGRAM_NO_PLACE);
        if (role == AH_ROLE_NONE)
            continue;
        const struct ah_program_place *place = &m->program->places[op->place[i]];
        assert_true(op->op.arg[i].offset_bytes + op->chunk_bytes[i] * (op->times - 1) + operands[i].bytes <=
                    place->bytes);
        operand_columns(m, op, &operands[i], i, &from, &to);
        touch(m, op->place[i]);
        bool reads = role == AH_ROLE_IN || (role == AH_ROLE_INOUT && !(i == 0 && first && op->first_writes));
        if (reads && !covers(&m->valid[op->place[i]], from, to))
            fail_msg("'%s' reads '%s', which is not there", op->name, place->name);
    }
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        uint64_t from, to;
        if (operands[i].role != AH_ROLE_OUT && operands[i].role != AH_ROLE_INOUT)
            continue;
        operand_columns(m, op, &operands[i], i, &from, &to);
        clobber(m, op->place[i]);
        if (!covers(&m->valid[op->place[i]], from, to))
            add_columns(&m->valid[op->place[i]], from, to);
        m->written[op->place[i]] = true;
    }
    m->instants++;
}

/* Checks the op at its final offsets, for its first run and its last. */
static void check_placed(const struct machine *m, const struct ah_program_op *op)
{
    const uint64_t arenas[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = m->arena_bytes};
    struct ah_error err = {0};
    for (uint64_t time = 0; time<op->times; time += op->times> 1 ? op->times - 1 : 1) {
        struct ah_op placed = op->op;
        for (size_t i = 0; i < AH_OP_ARGS; i++) {
            if (op->place[i] == AH_PROGRAM_NO_PLACE)
                continue;
            const struct ah_program_place *place = &m->program->places[op->place[i]];
            assert_int_not_equal(place->home, AH_HOME_NONE);
            placed.arg[i].offset_bytes +=
                time * op->chunk_bytes[i] + (place->home == AH_HOME_DATA
                                                 ? m->data_at[op->place[i]]
                                                 : m->home_at[place->home] + place->offset_bytes);
        }
        int rc = ah_op_check(&placed, arenas, &err);
        if (rc)
            fail_msg("'%s': %s", op->name, err.text);
    }
}

/* Runs the program, with each loop run twice, so that one iteration sees what another left. */
static void run(struct machine *m)
{
    const struct ah_program *program = m->program;
    for (size_t i = 0; i < program->n_ops;) {
        size_t end = i;
        while (end < program->n_ops && program->ops[end].times > 1)
            end++;
        for (int turn = 0; turn < 2 && end > i; turn++)
            for (size_t at = i; at < end; at++)
                do_op(m, &program->ops[at], turn == 0);
        if (end == i)
            do_op(m, &program->ops[end++], true);
        i = end;
    }
}

/* Returns the largest number of scratch bytes alive at one instant. Every allocator needs that many. */
static uint64_t live_bound(const struct machine *m, uint64_t *ret_highest_end)
{
    uint64_t most = 0;
    *ret_highest_end = 0;
    for (int instant = 0; instant < m->instants; instant++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < m->program->n_places; i++) {
            const struct ah_program_place *place = &m->program->places[i];
            if (place->home != AH_HOME_SCRATCH)
                continue;
            sum += m->first[i] <= instant && instant <= m->last[i] ? up(place->bytes) : 0;
            if (place->offset_bytes + up(place->bytes) > *ret_highest_end)
                *ret_highest_end = place->offset_bytes + up(place->bytes);
        }
        most = sum > most ? sum : most;
    }
    return most;
}

/* Returns the tensors whose gradients are in a place: one tensor, or gate and up. */
static uint32_t gradients_in(const struct ah_program_place *place, const struct ah_flat *flat,
                             uint64_t element_bytes)
{
    uint32_t found = 0;
    for (size_t t = 0; t < flat->n; t++) {
        const uint64_t begin = flat->tensors[t].trained_first * element_bytes;
        const uint64_t end = begin + flat->tensors[t].elements * element_bytes;
        if (flat->tensors[t].trained && place->offset_bytes <= begin &&
            end <= place->offset_bytes + place->bytes)
            found |= 1u << t;
    }
    return found;
}

static void check_results(const struct machine *m, const struct ah_job *job, const struct ah_job_group *group,
                          enum ah_pass pass)
{
    bool head = group->kind == AH_BLOCK_HEAD, forward = pass == AH_PASS_FORWARD;
    uint32_t gradients = 0;
    bool output = false, loss = false, down = false, table = false;
    const struct ah_flat flat = ah_flat_of(job->model, group->kind, group->trained);
    for (size_t i = 0; i < m->program->n_places; i++) {
        const struct ah_program_place *place = &m->program->places[i];
        if (place->home == AH_HOME_SAVED && forward)
            assert_true(m->written[i] && m->valid[i].n);
        if (place->home == AH_HOME_WEIGHTS || place->home == AH_HOME_INPUT || place->home == AH_HOME_TABLE)
            assert_false(m->written[i]);
        if (!m->written[i])
            continue;
        output |= place->home == AH_HOME_OUTPUT;
        down |= place->home == AH_HOME_RESIDUAL_GRADIENT;
        table |= place->home == AH_HOME_TABLE_GRADIENTS;
        loss |= place->home == AH_HOME_DATA && !strcmp(place->name, "loss_sum");
        if (place->home == AH_HOME_GRADIENTS)
            gradients |= gradients_in(place, &flat, ah_dtype_bytes(job->training.dtype));
    }
    bool backward = head || !forward;
    assert_int_equal(output, forward && !head);
    assert_int_equal(loss, head && forward);
    assert_int_equal(gradients, backward ? group->trained : 0);
    assert_int_equal(table, head && job->model->tied && (job->groups[0].trained & 1));
    /* Even if a block passes no gradient on, it may update the residual gradient for its own use. */
    if (group->input_gradient && backward)
        assert_true(down);
    if (head)
        assert_int_equal(down, group->input_gradient);
}

struct tally {
    uint64_t programs, exact;
    double worst;
};

static void check_pass(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                       enum ah_activations way, struct tally *tally)
{
    struct ah_program *program = malloc(sizeof *program);
    struct machine *m = calloc(1, sizeof *m);
    struct ah_error err = {0};
    uint64_t highest;
    bool head = group->kind == AH_BLOCK_HEAD;
    assert_true(program && m);
    CHECK_OK(ah_program_build(job, group, pass, way, program, &err), err);
    m->program = program;
    lay_homes(m);
    fill_homes(m, pass, head, job->model->tied);
    run(m);
    for (size_t i = 0; i < program->n_ops; i++)
        check_placed(m, &program->ops[i]);
    if (pass == AH_PASS_FORWARD || (group->backward && !head))
        check_results(m, job, group, pass);
    else
        assert_int_equal(program->n_ops, 0);
    uint64_t bound = live_bound(m, &highest);
    assert_int_equal(highest, program->scratch_bytes);
    assert_true(program->scratch_bytes >= bound);
    tally->programs++;
    tally->exact += program->scratch_bytes == bound;
    double over = bound ? (double)program->scratch_bytes / (double)bound : 1;
    tally->worst = over > tally->worst ? over : tally->worst;
    assert_int_equal(program->saved_bytes, group->saved_bytes[way]);
    assert_int_equal(program->scratch_bytes, pass == AH_PASS_FORWARD ? group->forward_work_bytes[way]
                                                                     : group->backward_work_bytes[way]);
    free(program);
    free(m);
}

struct work {
    double products, moved;
    size_t steps;
};

static struct work work_of(const struct ah_job *job, const struct ah_job_group *group, enum ah_pass pass,
                           enum ah_activations way)
{
    struct ah_program_step steps[AH_PROGRAM_STEPS_MAX];
    struct work work = {.steps = ah_program_steps(job, group, pass, way, steps)};
    for (size_t i = 0; i < work.steps; i++) {
        assert_true(steps[i].moved_bytes > 0 && steps[i].times >= 1);
        assert_int_equal(steps[i].flops > 0, steps[i].kind != AH_STEP_POINTWISE);
        work.products += steps[i].flops;
        work.moved += (double)steps[i].moved_bytes;
    }
    return work;
}

/* Checks that `keep` saves the most and does the least work, and that `selective` repeats no product. */
static void check_ways(const struct ah_job *job, const struct ah_job_group *group)
{
    struct work keep = work_of(job, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_KEEP);
    struct work selective = work_of(job, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_SELECTIVE);
    struct work recompute = work_of(job, group, AH_PASS_BACKWARD, AH_ACTIVATIONS_RECOMPUTE);
    assert_true(group->saved_bytes[AH_ACTIVATIONS_KEEP] >= group->saved_bytes[AH_ACTIVATIONS_SELECTIVE]);
    assert_int_equal(group->saved_bytes[AH_ACTIVATIONS_RECOMPUTE], 0);
    assert_true(selective.products == keep.products);
    assert_true(recompute.products >= selective.products);
    assert_true(selective.moved >= keep.moved && recompute.moved >= selective.moved);
    for (int way = 1; way < AH_ACTIVATIONS_WAYS; way++) {
        struct work a = work_of(job, group, AH_PASS_FORWARD, AH_ACTIVATIONS_KEEP);
        struct work b = work_of(job, group, AH_PASS_FORWARD, (enum ah_activations)way);
        assert_true(a.products == b.products && a.moved == b.moved && a.steps == b.steps);
        assert_true(group->forward_work_bytes[way] >= group->forward_work_bytes[way - 1]);
        assert_true(group->saved_bytes[way] + group->forward_work_bytes[way] >=
                    group->forward_work_bytes[AH_ACTIVATIONS_RECOMPUTE]);
    }
}

static void check_job(const struct ah_job *job, struct tally *tally)
{
    for (size_t g = 0; g < job->n_groups; g++) {
        for (int pass = 0; pass < 2; pass++)
            for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++)
                check_pass(job, &job->groups[g], (enum ah_pass)pass, (enum ah_activations)way, tally);
        check_ways(job, &job->groups[g]);
    }
}

/* Draws patterns that name half of the tensors, one tensor, or all but one. */
static size_t random_patterns(const struct ah_model *model, uint64_t *random, char text[][96],
                              const char **patterns)
{
    struct ah_model_tensor tensors[AH_MODEL_TENSORS_MAX];
    size_t n = 0;
    uint64_t blocks = ah_model_blocks(model), how = check_random(random) % 3;
    if (how)
        patterns[n++] = "*";
    for (size_t i = 0; i < 12; i++) {
        uint64_t block = check_random(random) % (blocks < 8 ? blocks : 8);
        block = check_random(random) % 5 ? block : blocks - 1;
        size_t count = ah_model_tensors(model, ah_model_block_kind(model, block), tensors);
        struct ah_job job = {.model = model};
        text[n][0] = '!';
        ah_job_tensor_name(&job, block, tensors[check_random(random) % count].name, text[n] + 1, 95);
        bool includes = how == 0 || check_random(random) % 4 == 0;
        patterns[n] = text[n] + (includes ? 1 : 0);
        n++;
        if (how == 2 && check_random(random) % 4 == 0)
            patterns[n++] = "!embedding*";
    }
    return n;
}

TEST(program, runs_in_its_memory)
{
    uint64_t random = check_seed(4711);
    struct tally tally = {0};
    for (size_t i = 0; i < TEST_MODELS; i++)
        for (size_t set = 0; set < SETS; set++) {
            static const uint64_t batches[] = {1, 4, 32}, seqs[] = {64, 100, 1024, 700};
            char text[32][96];
            const char *patterns[32];
            struct test_job j;
            test_job_model(&j, test_models[i]);
            struct ah_model *model = j.document.body.model;
            struct ah_plan_training training = {.batch = batches[check_random(&random) % 3],
                                                .seq = seqs[check_random(&random) % 4],
                                                .dtype = set % 2 ? AH_FP32 : AH_BF16};
            training.micro_batches = training.batch > 1 && check_random(&random) % 2 ? 2 : 1;
            if (set > 1) {
                training.trainable = patterns;
                training.n_trainable = random_patterns(model, &random, text, patterns);
            }
            model->window = set == 3 ? 48 : model->window;
            test_job_start(&j, training);
            check_job(&j.job, &tally);
            test_job_close(&j);
        }
    print_message("%llu programs, scratch at its bound in %llu, at most %.3f of it\n",
                  (unsigned long long)tally.programs, (unsigned long long)tally.exact, tally.worst);
    assert_true(tally.programs > 1000);
    assert_true(100 * tally.exact >= 99 * tally.programs && tally.worst < 1.2);
}

/* Four times the batch saves four times the bytes, except where sizes are rounded. */
TEST(program, sizes_follow_tokens)
{
    for (size_t i = 0; i < TEST_MODELS; i++) {
        struct test_job a, b;
        struct ah_plan_training training = {.batch = 2, .micro_batches = 1, .seq = 256, .dtype = AH_BF16};
        test_job_open(&a, test_models[i], training);
        training.batch = 8;
        test_job_open(&b, test_models[i], training);
        for (size_t g = 0; g < a.job.n_groups; g++)
            for (int way = 0; way < AH_ACTIVATIONS_WAYS; way++) {
                const struct ah_job_group *one = &a.job.groups[g], *four = &b.job.groups[g];
                assert_int_equal(4 * one->saved_bytes[way], four->saved_bytes[way]);
                if (one->kind == AH_BLOCK_LAYER)
                    assert_int_equal(4 * one->forward_work_bytes[way], four->forward_work_bytes[way]);
            }
        test_job_close(&a);
        test_job_close(&b);
    }
}
