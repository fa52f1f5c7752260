/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests worlds of planned pipelines. Every rank is what its stage says. A broken plan is refused with one sentence
 * before any rank starts. The reader of documents, the joint replay of programs, or the world itself refuses it. The
 * world checks plans even if nothing else did.
 */
#include "planner/cluster/sim/cluster_replay.h"
#include "runtime/schedule/check.h"
#include "runtime/train/world.h"
#include "tests/property/cluster/planned.h"

#include <inttypes.h>
#include <string.h>

enum { DRAWS = 4000, LEAST_STAGES = 3, SEVERAL = 60 };

static struct planned planned;

static bool is_wanted(const struct ah_cluster_plan *plan)
{
    bool wanted = plan->n_pipelines == 1 && !plan->n_idle_ranks && plan->n_programs > 2 &&
                  plan->pipelines[0].n_stages >= LEAST_STAGES && plan->training.micro_batches > 1;
    for (size_t i = 0; i < plan->n_segments; i++)
        wanted = wanted && !plan->segments[i].tied;
    for (size_t i = 0; i < plan->n_programs; i++)
        wanted = wanted && plan->programs[i].lanes.n_order[AH_PLAN_LANE_COMPUTE] > 8;
    return wanted;
}

static void draw(uint64_t *random)
{
    for (int i = 0; i < DRAWS; i++) {
        planned_draw(&planned, random);
        for (size_t n = 0; n < planned.cluster.n_nodes; n++)
            planned.nodes[n].gpus = 1;
        if (!planned.model.body.model->tied && planned.cluster.n_nodes >= LEAST_STAGES) {
            planned_of_cpus(&planned);
            planned.request.training.micro_batches = 4;
            if (planned_plan(&planned) && is_wanted(&planned.plan))
                return;
        }
        planned_release(&planned);
    }
    fail_msg("no pipeline of %d stages in %d draws", LEAST_STAGES, DRAWS);
}

/* ---- intact pipelines ---- */

TEST(world, has_a_place_for_every_rank)
{
    uint64_t random = check_seed(83);
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_world world;
    draw(&random);
    const struct ah_cluster_plan *plan = &planned.plan;
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[0];
    CHECK_OK(ah_world_init(&world, plan, &arena, &err), err);
    assert_int_equal(world.ranks, pipeline->n_stages);
    for (size_t i = 0; i < pipeline->n_stages; i++) {
        const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
        const struct ah_trainer_rank *place = &world.places[stage->ranks[0]];
        assert_int_equal(place->rank, stage->ranks[0]);
        assert_int_equal(place->ranks, world.ranks);
        assert_null(place->comm);
        assert_ptr_equal(world.programs[place->rank], &plan->programs[stage->program]);
        assert_string_equal(world.nodes[place->rank], stage->node);
        if (i)
            assert_int_equal(place->before, stage[-1].ranks[0]);
        if (i + 1 < pipeline->n_stages)
            assert_int_equal(place->behind, stage[1].ranks[0]);
        for (uint64_t block = 0; block < stage->blocks; block++)
            assert_int_equal(place->owner[stage->first_block + block], stage->ranks[0]);
    }
    ah_arena_release(&arena);
    planned_release(&planned);
}

/* Idle GPUs are not started, so later ranks get lower numbers. */
TEST(world, numbers_ranks_without_those_that_idle)
{
    uint64_t random = check_seed(84);
    uint64_t idle[] = {0, 2};
    struct ah_error err = {0};
    struct ah_arena arena = {0};
    struct ah_world whole, world;
    draw(&random);
    struct ah_cluster_plan *plan = &planned.plan;
    CHECK_OK(ah_world_init(&whole, plan, &arena, &err), err);
    for (size_t i = 0; i < plan->pipelines[0].n_stages; i++) {
        uint64_t *rank = &plan->pipelines[0].stages[i].ranks[0];
        *rank += *rank ? 2 : 1; /* 0 and 2 are free */
    }
    plan->idle_ranks = idle;
    plan->n_idle_ranks = sizeof idle / sizeof *idle;
    CHECK_OK(ah_world_init(&world, plan, &arena, &err), err);
    assert_int_equal(world.ranks, whole.ranks);
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
        assert_ptr_equal(world.programs[rank], whole.programs[rank]);
        assert_int_equal(world.places[rank].before, whole.places[rank].before);
        assert_int_equal(world.places[rank].behind, whole.places[rank].behind);
    }
    plan->n_idle_ranks = 0;
    ah_arena_release(&arena);
    planned_release(&planned);
}

/* ---- several pipelines ---- */

/* True if the pipelines are of CPUs and cut at different blocks, so that several ranks form a share. */
static bool is_wanted_several(const struct ah_cluster_plan *plan)
{
    bool wanted = plan->n_pipelines > 1 && !plan->n_idle_ranks && plan->n_segments > 1, cut = false;
    for (size_t i = 0; i < plan->n_segments; i++)
        wanted = wanted && !plan->segments[i].tied;
    for (size_t p = 0; p < plan->n_pipelines; p++)
        cut = cut || plan->pipelines[p].n_stages > 1;
    return wanted && cut;
}

static void draw_several(uint64_t *random)
{
    for (int i = 0; i < DRAWS; i++) {
        planned_draw(&planned, random);
        for (size_t n = 0; n < planned.cluster.n_nodes; n++)
            planned.nodes[n].gpus = 1 + check_random(random) % 2;
        if (!planned.model.body.model->tied && planned.cluster.n_nodes > 1) {
            planned_of_cpus(&planned);
            planned.request.tp_mode = AH_TP_SYMMETRIC;
            planned.request.tp = 1;
            planned.request.training.micro_batches = 4;
            if (planned_plan(&planned) && is_wanted_several(&planned.plan))
                return;
        }
        planned_release(&planned);
    }
    fail_msg("no pipelines with a boundary in %d draws", DRAWS);
}

/* True if the document says that `rank` owns the segment. One rank of each pipeline does. */
static bool is_owner(const struct ah_cluster_plan_segment *segment, uint32_t rank)
{
    for (size_t i = 0; i < segment->groups[0].n_ranks; i++)
        if (segment->groups[0].ranks[i] == rank)
            return true;
    return false;
}

static void check_shares(const struct ah_cluster_plan *plan, const struct ah_trainer_rank *place)
{
    assert_int_equal(place->n_shares, plan->n_segments);
    for (size_t s = 0; s < plan->n_segments; s++) {
        const struct ah_trainer_share *share = &place->shares[s];
        assert_int_equal(share->first_block, plan->segments[s].first_block);
        assert_int_equal(share->blocks, plan->segments[s].blocks);
        assert_int_equal(plan->segments[s].groups[0].n_ranks, plan->n_pipelines);
        for (size_t p = 0; p < plan->n_pipelines; p++) {
            const struct ah_trainer_stage *stage = &place->stages[share->ranks[p]];
            assert_true(is_owner(&plan->segments[s], share->ranks[p]));
            assert_int_equal(stage->pipeline, p);
            assert_true(stage->first_block <= share->first_block);
            assert_true(share->first_block + share->blocks <= stage->first_block + stage->blocks);
        }
    }
}

static void check_stage(const struct ah_world *world, const struct ah_cluster_plan *plan, size_t p, size_t i,
                        uint64_t first_micro_batch)
{
    const struct ah_cluster_plan_pipeline *pipeline = &plan->pipelines[p];
    const struct ah_cluster_plan_stage *stage = &pipeline->stages[i];
    const struct ah_trainer_rank *place = &world->places[stage->ranks[0]];
    const struct ah_trainer_stage *its = &place->stages[place->rank];
    assert_int_equal(place->rank, stage->ranks[0]);
    assert_int_equal(place->pipelines, plan->n_pipelines);
    assert_int_equal(place->step_batch, plan->training.batch);
    assert_ptr_equal(world->programs[place->rank], &plan->programs[stage->program]);
    assert_int_equal(its->pipeline, p);
    assert_int_equal(its->first_block, stage->first_block);
    assert_int_equal(its->blocks, stage->blocks);
    assert_int_equal(its->first_micro_batch, first_micro_batch);
    assert_int_equal(its->micro_batches, pipeline->micro_batches);
    if (i)
        assert_int_equal(place->before, stage[-1].ranks[0]);
    if (i + 1 < pipeline->n_stages)
        assert_int_equal(place->behind, stage[1].ranks[0]);
    for (uint64_t block = 0; block < stage->blocks && !p; block++)
        assert_int_equal(place->owner[stage->first_block + block], stage->ranks[0]);
    check_shares(plan, place);
}

TEST(world, has_a_place_for_every_rank_of_several_pipelines)
{
    uint64_t random = check_seed(89), unequal = 0;
    for (uint64_t k = 0; k < check_scaled(SEVERAL); k++) {
        struct ah_error err = {0};
        struct ah_arena arena = {0};
        struct ah_world world;
        uint64_t first_micro_batch = 0;
        draw_several(&random);
        const struct ah_cluster_plan *plan = &planned.plan;
        CHECK_OK(ah_world_init(&world, plan, &arena, &err), err);
        for (size_t p = 0; p < plan->n_pipelines; p++) {
            for (size_t i = 0; i < plan->pipelines[p].n_stages; i++)
                check_stage(&world, plan, p, i, first_micro_batch);
            first_micro_batch += plan->pipelines[p].micro_batches;
            unequal += plan->pipelines[p].n_stages != plan->pipelines[0].n_stages;
        }
        ah_arena_release(&arena);
        planned_release(&planned);
    }
    print_message("%" PRIu64 " pipelines with other stages than the first\n", unequal);
    assert_true(unequal > 0 || check_scaled(SEVERAL) < SEVERAL);
}

/* ---- broken pipelines ---- */

static struct ah_cluster_plan_stage *stage_of(struct ah_cluster_plan *plan, size_t i)
{
    return &plan->pipelines[0].stages[i];
}

static struct ah_plan *program_of(struct ah_cluster_plan *plan, size_t i)
{
    return &plan->programs[stage_of(plan, i)->program];
}

static struct ah_plan_op *find_op(struct ah_plan *program, enum ah_plan_op_kind kind)
{
    size_t i = 0;
    while (program->ops[i].op != kind)
        assert_true(++i < program->n_ops);
    return &program->ops[i];
}

static struct ah_plan_tensor *find_tensor(struct ah_plan *program, enum ah_tensor_label label)
{
    size_t i = 0;
    while (program->arena.tensors[i].label != label)
        assert_true(++i < program->arena.n_tensors);
    return &program->arena.tensors[i];
}

static void no_programs(struct ah_cluster_plan *plan)
{
    plan->n_programs = 0;
}
static void rank_too_high(struct ah_cluster_plan *plan)
{
    stage_of(plan, 1)->ranks[0] = 9;
}
static void rank_twice(struct ah_cluster_plan *plan)
{
    stage_of(plan, 1)->ranks[0] = stage_of(plan, 0)->ranks[0];
}
static void rank_idles(struct ah_cluster_plan *plan)
{
    static uint64_t idle[] = {0}; /* the first stage's rank */
    plan->idle_ranks = idle;
    plan->n_idle_ranks = 1;
}
static void tensor_parallel(struct ah_cluster_plan *plan)
{
    stage_of(plan, 1)->tp = 2;
}
static void two_pipelines(struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_pipeline *two = ah_arena_array(&planned.arena, 2, sizeof *two);
    assert_non_null(two);
    two[0] = two[1] = plan->pipelines[0];
    plan->pipelines = two;
    plan->n_pipelines = 2;
}
static void tied_table(struct ah_cluster_plan *plan)
{
    static struct ah_cluster_plan_segment tied = {.blocks = 1, .tied = true};
    plan->segments = &tied;
    plan->n_segments = 1;
}
static void cuda(struct ah_cluster_plan *plan)
{
    program_of(plan, 1)->numeric_signature.device = AH_DEVICE_CUDA;
}
static void no_such_program(struct ah_cluster_plan *plan)
{
    stage_of(plan, 1)->program = plan->n_programs;
}
static void programs_swapped(struct ah_cluster_plan *plan)
{
    uint64_t program = stage_of(plan, 0)->program;
    stage_of(plan, 0)->program = stage_of(plan, 1)->program;
    stage_of(plan, 1)->program = program;
}
static void program_twice(struct ah_cluster_plan *plan)
{
    stage_of(plan, 1)->program = stage_of(plan, 2)->program;
}
static void stages_swapped(struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_stage stage = *stage_of(plan, 0);
    *stage_of(plan, 0) = *stage_of(plan, 1);
    *stage_of(plan, 1) = stage;
}
static void no_part(struct ah_cluster_plan *plan)
{
    program_of(plan, 1)->part = NULL;
}
static void blocks_of_another(struct ah_cluster_plan *plan)
{
    stage_of(plan, 0)->blocks++;
    stage_of(plan, 1)->first_block++;
    stage_of(plan, 1)->blocks--;
}
static void blocks_beyond(struct ah_cluster_plan *plan)
{
    stage_of(plan, plan->pipelines[0].n_stages - 1)->blocks += 100;
}
static void longer_message(struct ah_cluster_plan *plan)
{
    find_op(program_of(plan, 0), AH_PLAN_SEND_OUTPUT)->bytes += 64;
}
static void shorter_place(struct ah_cluster_plan *plan)
{
    find_tensor(program_of(plan, 1), AH_TENSOR_INPUT)->bytes -= 64;
}
static void all_longer(struct ah_cluster_plan *plan)
{
    struct ah_plan *program = program_of(plan, 0);
    for (size_t i = 0; i < program->n_ops; i++)
        program->ops[i].bytes += program->ops[i].op == AH_PLAN_SEND_OUTPUT ? 64 : 0;
    for (size_t i = 0; i < program->arena.n_tensors; i++)
        program->arena.tensors[i].bytes += program->arena.tensors[i].label == AH_TENSOR_OUTPUT ? 64 : 0;
}
static void other_micro_batches(struct ah_cluster_plan *plan)
{
    program_of(plan, 1)->training.micro_batches = 2;
}
static void sent_twice(struct ah_cluster_plan *plan)
{
    find_op(program_of(plan, 1), AH_PLAN_SEND_INPUT_GRADIENT)->micro_batch = 1;
}
static void never_sent(struct ah_cluster_plan *plan)
{
    find_op(program_of(plan, 0), AH_PLAN_SEND_OUTPUT)->op = AH_PLAN_FORWARD;
}
static void no_place(struct ah_cluster_plan *plan)
{
    struct ah_plan *program = program_of(plan, 1);
    find_tensor(program, AH_TENSOR_INPUT)->label = AH_TENSOR_SAVED;
}

/* Makes a deadlock: each stage frees a message's place only when it needs it, and the first does its forwards first. */
static void wait_in_a_circle(struct ah_cluster_plan *plan)
{
    struct ah_plan *program = program_of(plan, 0);
    uint64_t *order = program->lanes.order[AH_PLAN_LANE_COMPUTE];
    const size_t n = program->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    size_t last = 0;
    for (size_t i = 0; i < n; i++)
        if (program->ops[order[i]].op == AH_PLAN_SEND_OUTPUT)
            last = i;
    /* the last output is sent after everything that needs gradients */
    const uint64_t op = order[last];
    memmove(&order[last], &order[last + 1], (n - last - 1) * sizeof *order);
    order[n - 1] = op;
    for (size_t i = 0; i < program->arena.n_tensors; i++)
        if (program->arena.tensors[i].label == AH_TENSOR_OUTPUT)
            program->arena.tensors[i].to = n - 1;
}
static void backward_before_its_message(struct ah_cluster_plan *plan)
{
    struct ah_plan *program = program_of(plan, 1);
    uint64_t *order = program->lanes.order[AH_PLAN_LANE_COMPUTE], op = order[0];
    const size_t n = program->lanes.n_order[AH_PLAN_LANE_COMPUTE];
    memmove(&order[0], &order[1], (n - 1) * sizeof *order);
    order[n - 1] = op;
}

static const struct broken {
    const char *name;
    void (*breaks)(struct ah_cluster_plan *plan);
    bool by_world; /* only the world refuses this plan */
} broken[] = {{"no programs", no_programs, true},
              {"a rank too high", rank_too_high, true},
              {"a rank twice", rank_twice, true},
              {"a rank that idles", rank_idles, true},
              {"tensor parallelism", tensor_parallel, true},
              {"two pipelines", two_pipelines, true},
              {"a tied table", tied_table, true},
              {"a GPU", cuda, true},
              {"no such program", no_such_program, true},
              {"programs swapped", programs_swapped, true},
              {"one program twice", program_twice, true},
              {"stages swapped", stages_swapped, true},
              {"no part", no_part, true},
              {"blocks of another", blocks_of_another, false},
              {"blocks beyond the model", blocks_beyond, false},
              {"a longer message", longer_message, true},
              {"a shorter place", shorter_place, true},
              {"longer messages and places", all_longer, true},
              {"other micro-batches", other_micro_batches, true},
              {"a message twice", sent_twice, true},
              {"a message never", never_sent, true},
              {"a message without a place", no_place, true},
              {"a circle", wait_in_a_circle, true},
              {"a message too late", backward_before_its_message, true}};

static int look_at(const struct ah_cluster_plan *plan, struct ah_error *err)
{
    struct ah_arena arena = {0};
    struct ah_world world;
    int rc = ah_world_init(&world, plan, &arena, err);
    ah_arena_release(&arena);
    return rc;
}

/* Checks the plan as the command 'run' checks a document. */
static int read_and_look_at(struct ah_cluster_plan *plan, struct ah_error *err)
{
    const struct ah_document from = {.kind = AH_DOCUMENT_CLUSTER_PLAN, .body = {.cluster_plan = plan}};
    struct ah_document document;
    struct ah_buffer text = {0};
    int rc = ah_document_print(&from, &text, err);
    rc = rc ? rc : ah_document_parse(&document, "plan", text.data, text.size, AH_DOCUMENT_CLUSTER_PLAN, err);
    ah_buffer_release(&text);
    if (rc)
        return rc;
    const struct ah_cluster_plan *read = document.body.cluster_plan;
    for (size_t i = 0; i < read->n_programs && !rc; i++)
        rc = ah_schedule_check(&read->programs[i], err);
    rc = rc ? rc : ah_cluster_replay_check(read, err);
    rc = rc ? rc : look_at(read, err);
    ah_document_release(&document);
    return rc;
}

static void expect_refused(const char *name, int rc, const struct ah_error *err)
{
    print_message("%-28s %s\n", name, err->text);
    if (rc == AH_OK || rc != err->code || !err->text[0] || strchr(err->text, '\n'))
        fail_msg("'%s' ends with %d: %s", name, rc, err->text);
}

/* ---- several pipelines, broken ---- */

static void segment_missing(struct ah_cluster_plan *plan)
{
    plan->n_segments--;
}
static void segment_twice(struct ah_cluster_plan *plan)
{
    plan->segments[1] = plan->segments[0];
}
static void segment_once_more(struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_segment *more = ah_arena_array(&planned.arena, plan->n_segments + 1, sizeof *more);
    assert_non_null(more);
    memcpy(more, plan->segments, plan->n_segments * sizeof *more);
    more[plan->n_segments++] = more[0];
    plan->segments = more;
}
static void segment_across(struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_segment *lower = &plan->segments[0];
    for (size_t i = 1; i < plan->n_segments; i++)
        lower = plan->segments[i].first_block < lower->first_block ? &plan->segments[i] : lower;
    lower->blocks++;
}
static void segment_beyond(struct ah_cluster_plan *plan)
{
    plan->segments[0].blocks = plan->blocks + 1;
}
static void owners_of_another(struct ah_cluster_plan *plan)
{
    struct ah_cluster_plan_group *groups = plan->segments[0].groups;
    plan->segments[0].groups = plan->segments[1].groups;
    plan->segments[1].groups = groups;
}
static void step_of_another(struct ah_cluster_plan *plan)
{
    plan->programs[plan->pipelines[1].stages[0].program].part->step_micro_batches *= 2;
}
static void step_untold(struct ah_cluster_plan *plan)
{
    plan->programs[plan->pipelines[1].stages[0].program].part->step_micro_batches = 0;
}
static void rank_twice_over_pipelines(struct ah_cluster_plan *plan)
{
    plan->pipelines[1].stages[0].ranks[0] = plan->pipelines[0].stages[0].ranks[0];
}
static void stage_missing(struct ah_cluster_plan *plan)
{
    size_t p = 0;
    while (plan->pipelines[p].n_stages < 2)
        p++;
    plan->pipelines[p].n_stages--;
}
static void pass_behind_an_update(struct ah_cluster_plan *plan)
{
    for (size_t i = 0; i < plan->n_programs; i++) {
        struct ah_plan *program = &plan->programs[i];
        uint64_t *order = program->lanes.order[AH_PLAN_LANE_COMPUTE];
        for (size_t at = 1; at < program->lanes.n_order[AH_PLAN_LANE_COMPUTE]; at++) {
            const uint64_t op = order[at];
            if (program->ops[op].op != AH_PLAN_DEVICE_ADAM ||
                program->ops[order[at - 1]].op == AH_PLAN_DEVICE_ADAM)
                continue;
            order[at] = order[at - 1];
            order[at - 1] = op;
            return;
        }
    }
    fail_msg("no program updates on its device");
}
static void micro_batches_of_another(struct ah_cluster_plan *plan)
{
    plan->pipelines[0].micro_batches++;
}

/* GPUs cannot add up with each other what they have in the memory of the host. */
static void sums_on_hosts(struct ah_cluster_plan *plan)
{
    for (size_t i = 0; i < plan->n_programs; i++)
        plan->programs[i].numeric_signature.device = AH_DEVICE_CUDA;
    program_of(plan, 0)->blocks[0].accumulator = AH_ACCUMULATOR_HOST;
}

static const struct broken several_broken[] = {
    {"sums of GPUs on hosts", sums_on_hosts, true},
    {"a segment missing", segment_missing, true},
    {"a segment twice", segment_twice, true},
    {"a segment once more", segment_once_more, true},
    {"a segment across a boundary", segment_across, true},
    {"a segment beyond the model", segment_beyond, true},
    {"owners of another segment", owners_of_another, true},
    {"a step of another", step_of_another, true},
    {"a step untold", step_untold, true},
    {"a rank twice over pipelines", rank_twice_over_pipelines, true},
    {"a stage missing", stage_missing, true},
    {"a pass behind an update", pass_behind_an_update, true},
    {"micro-batches of another", micro_batches_of_another, false}};

static void expect_all_refused(void (*draw_one)(uint64_t *random), const struct broken *broken_ones, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t random = 83;
        struct ah_error err = {0}, again = {0};
        draw_one(&random); /* a new plan is drawn, because the test changes plans in place */
        broken_ones[i].breaks(&planned.plan);
        if (broken_ones[i].by_world)
            expect_refused(broken_ones[i].name, look_at(&planned.plan, &err), &err);
        if (planned.plan.pipelines[0].n_stages < 2 ||
            program_of(&planned.plan, 1)->part) /* otherwise it cannot be printed */
            expect_refused(broken_ones[i].name, read_and_look_at(&planned.plan, &again), &again);
        planned_release(&planned);
    }
}

TEST(world, refuses_what_is_broken)
{
    expect_all_refused(draw, broken, sizeof broken / sizeof *broken);
}

TEST(world, refuses_what_is_broken_between_pipelines)
{
    expect_all_refused(draw_several, several_broken, sizeof several_broken / sizeof *several_broken);
}
