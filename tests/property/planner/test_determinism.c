/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that equal requests give equal bytes: when repeated, after other plans, and in two threads at once.
 */
#include "tests/property/planner/requests.h"

#include <pthread.h>

static const struct {
    const char *model, *machine;
    uint64_t device_mib, micro_batches;
    enum ah_policy policy;
} requests[] = {
    {"tiny", "rtx4090-64g", 540, 1, AH_POLICY_OPTIMAL},
    {"tiny", "a100-40g-epyc7713", 640, 2, AH_POLICY_OPTIMAL},
    {"gpt2-124m", "rtx4090-64g", 1500, 1, AH_POLICY_OPTIMAL},
    {"gpt2-355m", "h200-16c-128g", 4000, 1, AH_POLICY_AUTOHETE_PAPER},
    {"gpt2-124m", "a100-40g-epyc7713", 2000, 4, AH_POLICY_STREAM},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

static struct ah_buffer text_of(size_t i)
{
    struct test_request t;
    test_request_open(&t, requests[i].model, requests[i].machine);
    t.request.device_bytes = requests[i].device_mib * TEST_MIB;
    t.request.training.micro_batches = requests[i].micro_batches;
    t.request.policy = requests[i].policy;
    t.request.alternatives = i == 0;
    CHECK_OK(test_request_plan(&t), t.err);
    struct ah_buffer text = test_request_text(&t);
    test_request_close(&t);
    return text;
}

static void check_same(const struct ah_buffer *a, const struct ah_buffer *b)
{
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

TEST(determinism, plans_in_between_change_nothing)
{
    struct ah_buffer first[REQUESTS];
    for (size_t i = 0; i < REQUESTS; i++)
        first[i] = text_of(i);
    for (size_t i = REQUESTS; i-- > 0;) {
        struct ah_buffer again = text_of(i);
        check_same(&first[i], &again);
        ah_buffer_release(&again);
        ah_buffer_release(&first[i]);
    }
}

struct worker {
    size_t first;
    struct ah_buffer texts[REQUESTS];
};

/* Plans all requests; each worker starts with a different request. */
static void *work(void *context)
{
    struct worker *worker = context;
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t index = (worker->first + i) % REQUESTS;
        worker->texts[index] = text_of(index);
    }
    return NULL;
}

TEST(determinism, threads_change_nothing)
{
    struct worker workers[2] = {{.first = 0}, {.first = 2}};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (size_t i = 0; i < REQUESTS; i++) {
        check_same(&workers[0].texts[i], &workers[1].texts[i]);
        ah_buffer_release(&workers[0].texts[i]);
        ah_buffer_release(&workers[1].texts[i]);
    }
}
