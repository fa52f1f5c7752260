/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that AdamW on a GPU gives the host's bits, for every combination of types, for tiles beginning anywhere in
 * their block, and for numbers at the ends of the range.
 */
#include "runtime/device/adamw_scalars.h"
#include "runtime/device/host/adamw.h"
#include "tests/device/device_math/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, COUNT = 9000, NO_WEIGHT = 2, ARRAYS = 5 };

static struct ah_adamw_scalars random_scalars(uint64_t *random)
{
    struct ah_adamw_scalars scalars;
    const struct ah_adamw_settings settings = {.lr = 1e-3 * check_uniform(random),
                                               .beta1 = 0.9,
                                               .beta2 = 0.95 + 0.049 * check_uniform(random),
                                               .epsilon = 1e-8,
                                               .weight_decay = 0.1,
                                               .step = 1 + (uint32_t)op_case_below(random, 1000),
                                               .seed = check_random(random)};
    ah_adamw_scalars_init(&scalars, &settings);
    scalars.grad_scale = (float)check_uniform(random);
    return scalars;
}

static struct ah_op random_adamw(uint64_t *random, int round)
{
    struct ah_op op = {.kind = AH_OP_ADAMW};
    const uint32_t state = round & 1 ? AH_BF16 : AH_FP32, weight = (uint32_t)(round >> 2) % 3;
    const uint64_t edges[] = {
        0, 4096, 4097, 4098, 4099, 64, (UINT64_C(1) << 34) - 4, AH_OP_ADAMW_END - 2 * COUNT};
    op.u.adamw = (struct ah_op_adamw){.count = op_case_size(random, COUNT),
                                      .first_element = edges[op_case_below(random, 8)],
                                      .block = (uint32_t)op_case_below(random, AH_OP_ADAMW_BLOCKS),
                                      .decay = op_case_below(random, 2)};
    op.arg[0] = op.arg[5] = op_case_fp32();
    op.arg[1] = op.arg[2] = (struct ah_ref){AH_ARENA_DEVICE, state, 0, 0};
    op.arg[3] = (struct ah_ref){AH_ARENA_DEVICE, round & 2 ? AH_BF16 : AH_FP32, 0, 0};
    if (weight != NO_WEIGHT)
        op.arg[4] = (struct ah_ref){AH_ARENA_DEVICE, weight, 0, 0};
    return op;
}

/* Fills all operands. If `special`, includes zeros, denormals, huge numbers, infinity and NaN. */
static void fill(struct op_case *c, bool special)
{
    static const double odd[] = {0, -0.0, 1e-41, -3e-39, 1e38, -3e38, (double)INFINITY, (double)NAN};
    op_case_fill(c, 0, -2, 2);
    op_case_fill(c, 1, -0.1, 0.1);
    op_case_fill(c, 2, 0, 0.01);
    op_case_fill(c, 3, -1, 1);
    for (uint64_t i = 0; special && i < c->op.u.adamw.count; i++)
        if (op_case_below(c->random, 4) == 0)
            op_case_set(c, op_case_below(c->random, 4), 0, i, odd[op_case_below(c->random, 8)]);
}

/* Returns the operand's memory, or NULL if the operand is absent. */
static void *operand(const struct op_case *c, unsigned char *memory, size_t arg)
{
    return c->op.arg[arg].arena ? memory + c->op.arg[arg].offset_bytes : NULL;
}

static void run_host(const struct op_case *c, const struct ah_adamw_scalars *scalars, unsigned char *memory)
{
    const struct ah_adamw_arrays arrays = {
        .master = operand(c, memory, 0),
        .m = operand(c, memory, 1),
        .v = operand(c, memory, 2),
        .gradient = operand(c, memory, 3),
        .weight = operand(c, memory, 4),
        .state_dtype = (enum ah_dtype)c->op.arg[1].dtype,
        .gradient_dtype = (enum ah_dtype)c->op.arg[3].dtype,
        .weight_dtype = (enum ah_dtype)c->op.arg[4].dtype,
        .decay = c->op.u.adamw.decay,
        .block = c->op.u.adamw.block,
        .first_element = c->op.u.adamw.first_element,
    };
    ah_adamw_run(ah_isa_detect(), &arrays, scalars, 0, c->op.u.adamw.count);
}

/* Checks that both elements have the same bits, or that both are NaN. */
static void check_element(const struct op_case *c, const struct op_case *host, size_t arg, uint64_t i)
{
    const double there = op_case_result(c, arg, 0, i), here = op_case_result(host, arg, 0, i);
    if (memcmp(&there, &here, sizeof there) != 0 && !(isnan(there) && isnan(here)))
        fail_msg("'%s', element %llu of %llu from %llu: %a, on the host %a", c->operands[arg].name,
                 (unsigned long long)i, (unsigned long long)c->op.u.adamw.count,
                 (unsigned long long)c->op.u.adamw.first_element, there, here);
}

TEST(adamw, has_the_bits_of_the_host)
{
    uint64_t random = check_seed(81);
    for (int round = 0; round < (int)check_scaled(ROUNDS); round++) {
        struct op_case c;
        const struct ah_op op = random_adamw(&random, round);
        const struct ah_adamw_scalars scalars = random_scalars(&random);
        op_case_init(&c, &op, &random);
        fill(&c, round % 3 == 0);
        memcpy(operand(&c, c.memory, 5), &scalars, sizeof scalars);
        struct op_case host = c;
        host.results = malloc(c.bytes);
        memcpy(host.results, c.memory, c.bytes);
        run_host(&host, &scalars, host.results);
        op_case_run(&c);
        for (size_t arg = 0; arg < ARRAYS; arg++)
            for (uint64_t i = 0; c.op.arg[arg].arena && i < op.u.adamw.count; i++)
                check_element(&c, &host, arg, i);
        free(host.results);
        op_case_release(&c);
    }
}
