/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares layouts of random and realistic lifetimes with explicit sets of positions. Tensors alive at one time do not
 * overlap, live bytes are those found by counting, and nothing depends on what the layout's memory held before.
 */
#include "runtime/schedule/layout.h"
#include "tests/property/schedule/lifetimes.h"
#include "tests/support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_SETS = 3000, REALISTIC_SETS = 300, POSITIONS_MAX = 1024 };

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Returns lives[i * positions + p], true if tensor i is alive at p, found by walking from `from` to `to`. */
static bool *walk_lives(const struct lifetimes_set *set)
{
    bool *lives = calloc(set->n * set->positions + 1, sizeof *lives);
    for (size_t i = 0; i < set->n; i++)
        for (uint32_t p = set->tensors[i].from;; p = (p + 1) % set->positions) {
            lives[i * set->positions + p] = true;
            if (p == set->tensors[i].to)
                break;
        }
    return lives;
}

static void check_apart(const struct lifetimes_set *set, const bool *lives)
{
    for (size_t i = 0; i < set->n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct ah_layout_tensor *a = &set->tensors[i], *b = &set->tensors[j];
            if (a->offset >= b->offset + b->bytes || b->offset >= a->offset + a->bytes)
                continue;
            for (uint32_t p = 0; p < set->positions; p++)
                if (lives[i * set->positions + p] && lives[j * set->positions + p])
                    fail_msg("tensors %zu and %zu overlap at position %u", i, j, p);
        }
}

static void check_result(const struct lifetimes_set *set, const bool *lives,
                         const struct ah_layout_result *result)
{
    uint64_t peak = 0, most = 0, classes = 0;
    uint32_t fullest = 0;
    for (size_t i = 0; i < set->n; i++) {
        uint64_t end = set->tensors[i].offset + rounded(set->tensors[i].bytes);
        assert_int_equal(set->tensors[i].offset % AH_LAYOUT_ALIGN, 0);
        peak = end > peak ? end : peak;
    }
    for (uint32_t p = 0; p < set->positions; p++) {
        uint64_t live = 0;
        for (size_t i = 0; i < set->n; i++)
            live += lives[i * set->positions + p] ? rounded(set->tensors[i].bytes) : 0;
        if (live > most) {
            most = live;
            fullest = p;
        }
    }
    assert_true(result->peak_bytes == peak && result->live_bytes == most && peak >= most);
    assert_int_equal(result->peak_position, fullest);
    for (size_t c = 0; c < AH_CLASSES; c++) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < set->n; i++)
            if (set->tensors[i].layout_class == c && lives[i * set->positions + fullest])
                bytes += rounded(set->tensors[i].bytes);
        assert_true(result->by_class[c] == bytes);
        classes += bytes;
    }
    assert_true(classes == most);
}

/* Lays out the set once more, in a layout used for other sets before and in a fresh one. The results must be equal. */
static void check_repeats(struct ah_layout *used, const struct lifetimes_set *set,
                          const struct ah_layout_result *result)
{
    static struct lifetimes_set again;
    struct ah_layout fresh = {0};
    struct ah_layout_result other, live;
    struct ah_error err = {0};
    again = *set;
    CHECK_OK(ah_layout_reserve(&fresh, set->n, set->positions, &err), err);
    for (size_t i = 0; i < set->n; i++)
        again.tensors[i].offset = 77;
    ah_layout_place(&fresh, again.tensors, set->n, set->positions, &other);
    assert_memory_equal(&other, result, sizeof other);
    for (size_t i = 0; i < set->n; i++)
        assert_true(again.tensors[i].offset == set->tensors[i].offset);
    ah_layout_place(used, again.tensors, set->n, set->positions, &other);
    assert_memory_equal(&other, result, sizeof other);
    ah_layout_live(used, set->tensors, set->n, set->positions, &live);
    assert_true(live.peak_bytes == result->live_bytes && live.live_bytes == result->live_bytes);
    assert_memory_equal(live.by_class, result->by_class, sizeof live.by_class);
    ah_layout_release(&fresh);
}

/* Checks that a peak within `enough_bytes` grows no further than that, and that any other peak does not change. */
static void check_enough(struct ah_layout *layout, const struct lifetimes_set *set, const bool *lives,
                         const struct ah_layout_result *result)
{
    static struct lifetimes_set again;
    const uint64_t enough[] = {result->live_bytes, result->peak_bytes - 1, result->peak_bytes,
                               result->peak_bytes + result->peak_bytes / 16};
    again = *set;
    for (size_t i = 0; i < sizeof enough / sizeof *enough && result->peak_bytes; i++) {
        struct ah_layout_result other;
        layout->enough_bytes = enough[i];
        ah_layout_place(layout, again.tensors, again.n, again.positions, &other);
        check_apart(&again, lives);
        check_result(&again, lives, &other);
        if (result->peak_bytes <= enough[i])
            assert_true(other.peak_bytes >= result->peak_bytes && other.peak_bytes <= enough[i]);
        else
            assert_true(other.peak_bytes == result->peak_bytes);
    }
    layout->enough_bytes = 0;
}

static void check_set(struct ah_layout *layout, struct lifetimes_set *set,
                      struct ah_layout_result *ret_result)
{
    struct ah_error err = {0};
    CHECK_OK(ah_layout_reserve(layout, set->n, set->positions, &err), err);
    ah_layout_place(layout, set->tensors, set->n, set->positions, ret_result);
    bool *lives = walk_lives(set);
    check_apart(set, lives);
    check_result(set, lives, ret_result);
    check_repeats(layout, set, ret_result);
    check_enough(layout, set, lives, ret_result);
    free(lives);
}

/* Draws any set: stacked tensors that do not nest, whole circles, single positions, sizes that do not divide. */
static void draw_random(struct lifetimes_set *set, uint64_t *seed)
{
    uint64_t most = check_random(seed) % 8 ? 40 : 200;
    uint32_t longest = check_random(seed) % 4 ? 20 : 150;
    set->n = check_random(seed) % most;
    set->positions = 1 + (uint32_t)(check_random(seed) % longest);
    uint64_t largest = check_random(seed) % 2 ? 2000 : 1 << 20;
    for (size_t i = 0; i < set->n; i++) {
        struct ah_layout_tensor *tensor = &set->tensors[i];
        memset(tensor, 0, sizeof *tensor);
        tensor->bytes = 1 + check_random(seed) % largest;
        tensor->from = (uint32_t)(check_random(seed) % set->positions);
        tensor->layout_class = (uint8_t)(check_random(seed) % AH_CLASSES);
        tensor->stacked = check_random(seed) % 4 == 0;
        tensor->persistent = check_random(seed) % 10 == 0;
        uint32_t lengths = check_random(seed) % 3 ? 4 : set->positions;
        uint32_t length = (uint32_t)(check_random(seed) % lengths);
        tensor->to = (uint32_t)((tensor->from + length) % set->positions);
        if (tensor->persistent) {
            tensor->from = 0;
            tensor->to = set->positions - 1;
        }
    }
}

TEST(layout, random_lifetimes_lie_apart)
{
    static struct lifetimes_set set;
    uint64_t seed = check_seed(31);
    struct ah_layout layout = {0};
    double worst = 1, sum = 0;
    for (int i = 0; i < RANDOM_SETS; i++) {
        struct ah_layout_result result;
        draw_random(&set, &seed);
        check_set(&layout, &set, &result);
        double ratio = set.n ? (double)result.peak_bytes / (double)result.live_bytes : 1;
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
    }
    printf("random lifetimes: peak/live %.4f on average, at most %.4f\n", sum / RANDOM_SETS, worst);
    assert_true(sum / RANDOM_SETS < 1.05);
    ah_layout_release(&layout);
}

struct nest {
    struct lifetimes_set *set;
    uint64_t *seed;
    uint32_t turn;
};

/* Draws nested lifetimes inside first..last, in random places of the circle. */
static void draw_nested(struct nest *nest, uint32_t first, uint32_t last, int depth)
{
    while (first <= last) {
        uint32_t from = first + (uint32_t)(check_random(nest->seed) % (last - first + 1));
        uint32_t to = from + (uint32_t)(check_random(nest->seed) % (last - from + 1));
        lifetimes_add(nest->set, 1 + check_random(nest->seed) % 5000, from + nest->turn, to + nest->turn,
                      AH_CLASS_ACTIVATIONS, true);
        if (depth > 0)
            draw_nested(nest, from, to, depth - 1);
        first = to + 1;
    }
}

TEST(layout, a_nested_stack_has_no_holes)
{
    static struct lifetimes_set set;
    uint64_t seed = check_seed(32);
    struct ah_layout layout = {0};
    for (int i = 0; i < RANDOM_SETS; i++) {
        struct ah_layout_result result;
        set.n = 0;
        set.positions = 1 + (uint32_t)(check_random(&seed) % 60);
        struct nest nest = {&set, &seed, (uint32_t)(check_random(&seed) % set.positions)};
        draw_nested(&nest, 0, set.positions - 1, (int)(check_random(&seed) % 5));
        check_set(&layout, &set, &result);
        assert_true(result.peak_bytes == result.live_bytes);
    }
    ah_layout_release(&layout);
}

static void draw_plan(struct lifetimes *it, uint64_t *seed)
{
    memset(it, 0, sizeof *it);
    it->blocks = 2 + (uint32_t)(check_random(seed) % 30);
    it->micro_batches = 1 + (uint32_t)(check_random(seed) % 3);
    it->block_major = check_random(seed) % 2;
    it->gradients = (enum lifetimes_gradients)(check_random(seed) % LIFETIMES_GRADIENTS);
    it->sent_for = (uint32_t)(check_random(seed) % 12);
    it->ahead = (uint32_t)(check_random(seed) % 4);
    it->activation = (1 + check_random(seed) % 400) << 16;
    it->gradient = (1 + check_random(seed) % 100) << 16;
    it->weight = (1 + check_random(seed) % 100) << 16;
    it->residual = (1 + check_random(seed) % 20) << 16;
    it->work = (1 + check_random(seed) % 80) << 16;
    it->fetched = (uint32_t)(check_random(seed) % (it->blocks + 1));
    it->recomputed = (uint32_t)(check_random(seed) % (it->blocks + 1));
}

TEST(layout, plans_need_hardly_more_than_is_live)
{
    static struct lifetimes_set set;
    uint64_t seed = check_seed(33);
    struct ah_layout layout = {0};
    double worst = 1, sum = 0;
    int exact = 0;
    for (int i = 0; i < REALISTIC_SETS; i++) {
        struct ah_layout_result result;
        struct lifetimes it;
        draw_plan(&it, &seed);
        lifetimes_fill(&it, &set);
        check_set(&layout, &set, &result);
        double ratio = (double)result.peak_bytes / (double)result.live_bytes;
        worst = ratio > worst ? ratio : worst;
        sum += ratio;
        exact += result.peak_bytes == result.live_bytes;
    }
    printf("plans: peak/live %.4f on average, at most %.4f, 1 in %d of %d\n", sum / REALISTIC_SETS, worst,
           exact, (int)REALISTIC_SETS);
    assert_true(sum / REALISTIC_SETS < 1.003 && worst < 1.2 && exact * 10 > REALISTIC_SETS * 9);
    ah_layout_release(&layout);
}
