/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests HexiScale's formulas by hand: one stage, three stages column by column, gradient sums of unequal degrees.
 */
#include "planner/cluster/policies/hexiscale_costs.h"
#include "tests/support/check.h"

#include <math.h>

enum { GPUS = 4 };

struct fixture {
    double flops[GPUS], bandwidth[GPUS * GPUS];
    struct ah_hexiscale_model model;
};

/* GPUs 0 and 1 are on one node; 2 and 3, twice as fast, on another. Width 8, seq 16, vocabulary 32, batch 2, layers
 * 4. */
static void make(struct fixture *f)
{
    for (size_t i = 0; i < GPUS; i++) {
        f->flops[i] = i < 2 ? 1e6 : 2e6;
        for (size_t j = 0; j < GPUS; j++)
            f->bandwidth[i * GPUS + j] = i / 2 == j / 2 ? 1e5 : 1e4;
    }
    f->model = (struct ah_hexiscale_model){GPUS, f->flops, f->bandwidth, 4, 8, 16, 32, 2};
}

static const double layer_flops = 96.0 * 2 * 16 * 64 * (1 + 16.0 / 48 + 32.0 / 512);
static const double residual = 2.0 * 2 * 16 * 8;

static void check(double us, double wanted)
{
    if (fabs(us - wanted) > 1e-9 * wanted)
        fail_msg("%.9g, not %.9g", us, wanted);
}

TEST(hexiscale_costs, one_stage)
{
    struct fixture f;
    size_t gpus[] = {0, 1}, one[] = {1}, two[] = {2}, layers[] = {4};
    make(&f);
    check(ah_hexiscale_pipeline_s(&f.model, &(struct ah_hexiscale_pipeline){gpus, one, layers, 1, 1}, 5),
          5 * 4 * layer_flops / 1e6);
    check(ah_hexiscale_pipeline_s(&f.model, &(struct ah_hexiscale_pipeline){gpus, two, layers, 2, 1}, 5),
          5 * 4 * (layer_flops / 2e6 + 12 * residual / 2e5));
}

/* Three stages fill and drain column by column, even with fewer micro-batches than stages. */
TEST(hexiscale_costs, columns)
{
    struct fixture f;
    size_t gpus[] = {0, 2, 1}, tp[] = {1, 1, 1}, layers[] = {1, 2, 1};
    make(&f);
    double send = 2 * residual / 1e4;
    double a = layer_flops / 1e6 + send, b = 2 * layer_flops / 2e6 + send, c = layer_flops / 1e6;
    const struct ah_hexiscale_pipeline p = {gpus, tp, layers, 3, 3};
    double all = fmax(a, fmax(b, c));
    check(ah_hexiscale_pipeline_s(&f.model, &p, 4), a + fmax(a, b) + 2 * all + fmax(b, c) + c);
    check(ah_hexiscale_pipeline_s(&f.model, &p, 2), a + fmax(a, b) + fmax(b, c) + c);
    check(ah_hexiscale_pipeline_s(&f.model, &p, 1), a + b + c);
}

/* The first pipeline is one stage on two GPUs. The second has two: layers 0 and 1 on GPU 2, layers 2 and 3 on GPU 3. */
TEST(hexiscale_costs, gradients)
{
    struct fixture f;
    size_t left[] = {0, 1}, left_tp[] = {2}, left_layers[] = {4};
    size_t right[] = {2, 3}, right_tp[] = {1, 1}, right_layers[] = {2, 2};
    make(&f);
    const struct ah_hexiscale_pipeline both[] = {{left, left_tp, left_layers, 2, 1},
                                                 {right, right_tp, right_layers, 2, 2}};
    double slowest =
        fmax(ah_hexiscale_pipeline_s(&f.model, &both[0], 3), ah_hexiscale_pipeline_s(&f.model, &both[1], 3));
    double slice = 2 * 12 * 64 * 2.0 / (1 * 2 * 1e4);
    check(ah_hexiscale_step_s(&f.model, both, 2, 3), 1.8 * slowest + 1.1 * 4 * 2 * slice);
}
