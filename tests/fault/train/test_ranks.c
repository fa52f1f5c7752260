/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that no step of a rank allocates, messages included, and that all ranks end if one runs out of memory.
 */
#include "tests/property/train/pipeline.h"
#include "tests/support/fault.h"

enum { PLANS = 6 };

static struct golden golden;
static struct pipeline pipeline;

static int train_counted(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                         struct ah_error *err)
{
    size_t *allocations = context;
    (void)held_out;
    int rc = ah_trainer_run(trainer, 1, NULL, err); /* after this step, all ranks have finished opening */
    if (rc)
        return rc;
    (void)fault_count();
    rc = ah_trainer_run(trainer, 4, NULL, err);
    rc = rc ? rc : ah_trainer_run(trainer, 1, NULL, err);
    *allocations = fault_count();
    return rc;
}

TEST(ranks, allocate_nothing_in_their_loops)
{
    uint64_t seed = check_seed(71), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open(&golden, "gpt2-untied-odd", AH_BF16);
    for (int plan = 0; plan < PLANS; plan++) {
        size_t allocations = 1;
        pipeline_open(&pipeline, &golden, 0, turn, &seed);
        pipeline_run(&pipeline, NULL, train_counted, &allocations);
        pipeline_expect_ok(&pipeline);
        assert_int_equal(allocations, 0);
        pipeline_close(&pipeline);
    }
    golden_close(&golden);
}

static int train_once(void *context, struct ah_trainer *trainer, struct ah_batches *held_out,
                      struct ah_error *err)
{
    (void)context;
    (void)held_out;
    return ah_trainer_run(trainer, 1, NULL, err);
}

/* Opens the ranks. Returns the error of the first one that failed. */
static int open_within(struct pipeline *p, double deadline_s, struct ah_error *err)
{
    p->deadline_s = deadline_s;
    int rc = pipeline_try(p, NULL, train_once, NULL, err);
    for (size_t i = 0; i < p->n && !rc; i++)
        rc = p->stages[i].rc ? ah_error_set(err, p->stages[i].rc, "%s", p->stages[i].err.text) : AH_OK;
    return rc;
}

/* Opens all ranks. Waits only briefly, because ranks that failed never join. On a busy machine, even a healthy rank may
 * need longer. So a second try, in which no allocation fails, waits long enough. */
static int open_all(void *context, struct ah_error *err)
{
    int rc = open_within(context, 0.2, err);
    if (!rc || !strstr(err->text, "within 0.2 s"))
        return rc;
    *err = (struct ah_error){0};
    return open_within(context, 60, err);
}

TEST(ranks, end_all_where_an_allocation_of_one_fails)
{
    uint64_t seed = check_seed(73), turn[AH_BLOCK_HEAD + 1] = {0};
    golden_open(&golden, "llama", AH_FP32);
    pipeline_open(&pipeline, &golden, 2, turn, &seed);
    print_message("%zu allocations\n", fault_sweep(open_all, &pipeline, 1));
    pipeline_close(&pipeline);
    golden_close(&golden);
}
