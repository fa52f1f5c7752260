/* SPDX-License-Identifier: Apache-2.0
 *
 * Pick: the largest logit, or a draw from the softmax.
 */
#include "runtime/sample/pick.h"

#include <math.h>
#include <stdlib.h>

static uint32_t largest(const float *logits, uint64_t n)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}

static int more_probable(const void *a, const void *b)
{
    const struct ah_pick_chance *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* Returns the number of most probable tokens that have `top_p` of all weight, and sets their weight. */
static uint64_t nucleus(const struct ah_pick *pick, double all, double *ret_sum)
{
    uint64_t n = 0;
    qsort(pick->room, pick->vocabulary, sizeof *pick->room, more_probable);
    for (*ret_sum = 0; n < pick->vocabulary && *ret_sum < pick->top_p * all; n++)
        *ret_sum += pick->room[n].weight;
    return n;
}

uint32_t ah_pick(const struct ah_pick *pick, const float *logits, double uniform)
{
    const uint32_t best = largest(logits, pick->vocabulary);
    double all = 0, sum = 0;
    if (!(pick->temperature > 0))
        return best;
    for (uint64_t i = 0; i < pick->vocabulary; i++) {
        const double weight = exp(((double)logits[i] - (double)logits[best]) / pick->temperature);
        pick->room[i] = (struct ah_pick_chance){weight, (uint32_t)i};
        all += weight;
    }
    uint64_t n = pick->vocabulary;
    if (pick->top_p < 1)
        n = nucleus(pick, all, &all);
    for (uint64_t i = 0; i < n; i++) {
        sum += pick->room[i].weight;
        if (uniform * all < sum)
            return pick->room[i].token;
    }
    return pick->room[n ? n - 1 : 0].token;
}
