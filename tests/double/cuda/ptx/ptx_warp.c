/* SPDX-License-Identifier: Apache-2.0
 *
 * What lanes of a warp do together: shuffles, votes, reductions, products of tiles, and loads of their operands.
 *
 * A PRODUCT of tiles is c += a b with 16 x 16 and 16 x 8 elements. For each element of c, the 16 exact products and c
 * are brought to the largest exponent. Bits more than 26 below it are cut off. The sum is truncated to fp32.
 *
 * Source: PTX ISA, "shfl.sync", "vote.sync", "redux.sync", "mma.sync.m16n8k16", "ldmatrix"; Fasi, Higham, Mikaitis,
 * Pranesh, Numerical behavior of NVIDIA tensor cores (2021).
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <math.h>
#include <string.h>

/* ---- shuffles, votes ---- */

/* Shuffles: d|p = shfl(a, b, c, mask). The source is lane b of a segment, or own number xor b, unless beyond c. */
static void shuffle(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                    uint32_t lanes, bool by_difference)
{
    uint64_t values[EMULATOR_WARP];
    PTX_EACH_LANE(lane, lanes)
    values[lane] = ptx_value(block, warp, &insn->operand[2], lane);
    PTX_EACH_LANE(lane, lanes)
    {
        const uint32_t b = (uint32_t)ptx_value(block, warp, &insn->operand[3], lane) & 31,
                       c = (uint32_t)ptx_value(block, warp, &insn->operand[4], lane);
        const uint32_t bound = c & 31, segment = c >> 8 & 31;
        const uint32_t last = (lane & segment) | (bound & ~segment);
        const uint32_t from = by_difference ? lane ^ b : (lane & segment) | (b & ~segment);
        const bool inside = from <= last;
        const uint32_t source = inside ? from : lane;
        if (!(lanes >> source & 1)) {
            ptx_trap(block, insn, "lane %u shuffles from lane %u, which is not here", lane, source);
            return;
        }
        ptx_set(warp, &insn->operand[0], lane, (uint32_t)values[source]);
        ptx_set(warp, &insn->operand[1], lane, inside);
    }
}

static void shuffle_index(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                          uint32_t lanes)
{
    shuffle(block, warp, insn, lanes, false);
}

static void shuffle_difference(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                               uint32_t lanes)
{
    shuffle(block, warp, insn, lanes, true);
}

static uint32_t votes(const struct ptx_block *block, const struct ptx_warp *warp, const struct ptx_insn *insn,
                      uint32_t lanes)
{
    uint32_t yes = 0;
    PTX_EACH_LANE(lane, lanes)
    yes |= (uint32_t)(ptx_value(block, warp, &insn->operand[1], lane) & 1) << lane;
    return yes;
}

static void set_all(struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes, uint64_t value)
{
    PTX_EACH_LANE(lane, lanes)
    ptx_set(warp, &insn->operand[0], lane, value);
}

static void vote_any(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                     uint32_t lanes)
{
    set_all(warp, insn, lanes, votes(block, warp, insn, lanes) != 0);
}

static void vote_ballot(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                        uint32_t lanes)
{
    set_all(warp, insn, lanes, votes(block, warp, insn, lanes));
}

static void reduce(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                   uint32_t lanes, bool largest)
{
    uint32_t result = largest ? 0 : UINT32_MAX;
    PTX_EACH_LANE(lane, lanes)
    {
        const uint32_t value = (uint32_t)ptx_value(block, warp, &insn->operand[1], lane);
        result = (value > result) == largest ? value : result;
    }
    set_all(warp, insn, lanes, result);
}

static void reduce_max(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                       uint32_t lanes)
{
    reduce(block, warp, insn, lanes, true);
}

static void reduce_min(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                       uint32_t lanes)
{
    reduce(block, warp, insn, lanes, false);
}

static void meet(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn, uint32_t lanes)
{
    (void)block;
    (void)insn;
    (void)lanes;
    warp->meetings++;
}

/* ---- tiles ---- */

/* Truncates to fp32. */
static float cut(double sum)
{
    float nearest = (float)sum;
    return isfinite(nearest) && fabs((double)nearest) > fabs(sum) ? nextafterf(nearest, 0.0f) : nearest;
}

enum { TILE_K = 16, TILE_BITS = 26 };

/* Returns c + the sum of a[k] b[k]. */
static float add_products(const float a[TILE_K], const float b[TILE_K], float c)
{
    double products[TILE_K + 1], largest = fabs((double)c), sum = 0;
    int exponent;
    products[TILE_K] = (double)c;
    for (int k = 0; k < TILE_K; k++) {
        products[k] = (double)a[k] * (double)b[k];
        largest = fabs(products[k]) > largest || isnan(products[k]) ? fabs(products[k]) : largest;
    }
    if (!isfinite(largest) || largest == 0) {
        for (int k = 0; k <= TILE_K; k++)
            sum += products[k];
        return (float)sum;
    }
    (void)frexp(largest, &exponent);
    const double unit = ldexp(1.0, exponent - TILE_BITS), units = ldexp(1.0, TILE_BITS - exponent);
    for (int k = 0; k <= TILE_K; k++)
        sum += trunc(products[k] * units);
    return cut(sum * unit);
}

/* Returns one element of a tile of pairs. `high` selects the upper half of the operand. */
static float half_of(const struct ptx_block *block, const struct ptx_warp *warp,
                     const struct ptx_operand *operand, uint32_t lane, uint32_t high)
{
    const uint64_t bits = ptx_value(block, warp, operand, lane);
    return ptx_f32((bits >> (16 * high) & 0xffff) << 16);
}

/* Multiplies tiles. The operands are d[4], a[4], b[2] and c[4]. */
static void multiply(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                     uint32_t lanes)
{
    const struct ptx_operand *d = insn->operand, *a = d + 4, *b = d + 8, *c = d + 10;
    float rows[16][TILE_K], columns[8][TILE_K], sums[EMULATOR_WARP][4];
    PTX_EACH_LANE(lane, lanes)
    {
        const uint32_t group = lane / 4, in_group = lane % 4;
        for (uint32_t i = 0; i < 8;
             i++) /* row: group for i 0, 1, 4, 5; column: 2 in_group + i % 2, + 8 from 4 on */
            rows[i < 2 || (i >= 4 && i < 6) ? group : group + 8][in_group * 2 + i % 2 + (i >= 4 ? 8 : 0)] =
                half_of(block, warp, &a[i / 2], lane, i % 2);
        for (uint32_t i = 0; i < 4; i++) /* row: 2 in_group + i % 2, + 8 from 2 on; column: group */
            columns[group][in_group * 2 + i % 2 + (i >= 2 ? 8 : 0)] =
                half_of(block, warp, &b[i / 2], lane, i % 2);
    }
    PTX_EACH_LANE(lane, lanes)
    for (uint32_t i = 0; i < 4; i++)
        sums[lane][i] = add_products(rows[lane / 4 + (i < 2 ? 0 : 8)], columns[lane % 4 * 2 + i % 2],
                                     ptx_f32(ptx_value(block, warp, &c[i], lane)));
    PTX_EACH_LANE(lane, lanes)
    for (uint32_t i = 0; i < 4; i++)
        ptx_set(warp, &d[i], lane, ptx_of_f32(sums[lane][i]));
}

/* Loads matrices. Lane l passes the address of row l % 8 of matrix l / 8. From matrix i, the lane gets elements 2 (l %
 * 4) and 2 (l % 4) + 1 of row l / 4 or, if transposed, of column l / 4. */
static void load_matrices(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                          uint32_t lanes, bool turned)
{
    enum { MATRICES = 4, ROW = 16 };
    uint16_t elements[MATRICES][8][8];
    uint64_t places[EMULATOR_WARP] = {0};
    PTX_EACH_LANE(lane, lanes)
    {
        places[lane] = ptx_value(block, warp, &insn->operand[MATRICES], lane);
        if (places[lane] % ROW) {
            ptx_trap(block, insn, "lane %u brings a row of a matrix at 0x%llx, no multiple of 16", lane,
                     (unsigned long long)places[lane]);
            return;
        }
        if (!ptx_shared_touch(block, warp, insn, lane, places[lane], ROW, false))
            return;
        memcpy(elements[lane / 8][lane % 8], block->shared + places[lane], ROW);
    }
    ptx_shared_count(block, places, lanes, ROW);
    PTX_EACH_LANE(lane, lanes)
    for (uint32_t i = 0; i < MATRICES; i++) {
        uint32_t pair = 0;
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t along = lane % 4 * 2 + half, across = lane / 4;
            pair |= (uint32_t)(turned ? elements[i][along][across] : elements[i][across][along])
                    << (16 * half);
        }
        ptx_set(warp, &insn->operand[i], lane, pair);
    }
}

static void load_rows(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                      uint32_t lanes)
{
    load_matrices(block, warp, insn, lanes, false);
}

static void load_columns(struct ptx_block *block, struct ptx_warp *warp, const struct ptx_insn *insn,
                         uint32_t lanes)
{
    load_matrices(block, warp, insn, lanes, true);
}

static const struct ptx_op rows_of[] = {
    {"shfl.sync.idx.b32", PTX_TOGETHER, PTX_EXCHANGE, NULL, shuffle_index, 2, false},
    {"shfl.sync.bfly.b32", PTX_TOGETHER, PTX_EXCHANGE, NULL, shuffle_difference, 2, false},
    {"vote.sync.any.pred", PTX_TOGETHER, PTX_EXCHANGE, NULL, vote_any, 1, false},
    {"vote.sync.ballot.b32", PTX_TOGETHER, PTX_EXCHANGE, NULL, vote_ballot, 1, false},
    {"redux.sync.max.u32", PTX_TOGETHER, PTX_EXCHANGE, NULL, reduce_max, 1, false},
    {"redux.sync.min.u32", PTX_TOGETHER, PTX_EXCHANGE, NULL, reduce_min, 1, false},
    {"bar.warp.sync", PTX_TOGETHER, PTX_EXCHANGE, NULL, meet, 0, false},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", PTX_TOGETHER, PTX_MATRIX, NULL, multiply, 4,
     true},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", PTX_TOGETHER, PTX_MEMORY, NULL, load_rows, 4, true},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", PTX_TOGETHER, PTX_MEMORY, NULL, load_columns, 4, true},
};

const struct ptx_op *ptx_warp_find(const char *name)
{
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++)
        if (strcmp(rows_of[i].name, name) == 0)
            return &rows_of[i];
    return NULL;
}
