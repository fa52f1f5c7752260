/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles with AMX. Four of the eight tile registers hold the sums (16 x 16 each), two hold a, two hold b. Inline
 * assembly is used because GCC 12's intrinsics do not say which memory they read.
 *
 * Linux lets a process use tile registers only if it asks (Documentation/arch/x86/xstate.rst). A thread configures them
 * before its first product of a run and releases them after the last, so other code in the process finds them unused.
 */
#if defined(__x86_64__)

#include "runtime/device/tile/tile_internal.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

enum { REGISTERS = 8, REGISTER_ROWS = 16, REGISTER_ROW_BYTES = 64, WORD_BYTES = 4 };

bool ah_tile_amx_permitted(void)
{
    return ah_isa_has_amx_bf16() && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* The operand of LDTILECFG, for palette 1. */
struct configuration {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static void amx_begin(void)
{
    struct configuration configuration = {.palette = 1};
    for (int i = 0; i < REGISTERS; i++) {
        configuration.row_bytes[i] = REGISTER_ROW_BYTES;
        configuration.rows[i] = REGISTER_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(configuration));
}

static void amx_end(void)
{
    __asm__ volatile("tilerelease");
}

#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define TILE_LOAD(tile, from, stride)                                                                        \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(stride) : "memory")
#define TILE_STORE(tile, to, stride)                                                                         \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(stride) : "memory")
#define TILE_DOT(sum, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : :)

/* Bytes from row to row. */
static const size_t sums_stride = AH_TILE_COLUMNS * sizeof(float);
static const size_t b_stride = (size_t)AH_TILE_COLUMNS * WORD_BYTES;

static void load_sums(const float *sums)
{
    TILE_LOAD(0, sums, sums_stride);
    TILE_LOAD(1, sums + 16, sums_stride);
    TILE_LOAD(2, sums + (size_t)REGISTER_ROWS * AH_TILE_COLUMNS, sums_stride);
    TILE_LOAD(3, sums + (size_t)REGISTER_ROWS * AH_TILE_COLUMNS + 16, sums_stride);
}

static void store_sums(float *sums)
{
    TILE_STORE(0, sums, sums_stride);
    TILE_STORE(1, sums + 16, sums_stride);
    TILE_STORE(2, sums + (size_t)REGISTER_ROWS * AH_TILE_COLUMNS, sums_stride);
    TILE_STORE(3, sums + (size_t)REGISTER_ROWS * AH_TILE_COLUMNS + 16, sums_stride);
}

static void zero_sums(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

static void multiply_amx(float *sums, const struct ah_tile_operands *operands, bool is_first)
{
    const unsigned char *a = operands->a;
    const size_t a_stride = operands->a_bytes;
    const unsigned char *b = operands->b;
    const unsigned char *b_end = b + operands->words * b_stride;
    if (is_first)
        zero_sums();
    else
        load_sums(sums);
    for (; b < b_end; a += REGISTER_ROW_BYTES, b += REGISTER_ROWS * b_stride) {
        TILE_LOAD(4, a, a_stride);
        TILE_LOAD(6, b, b_stride);
        TILE_LOAD(5, a + REGISTER_ROWS * a_stride, a_stride);
        TILE_LOAD(7, b + REGISTER_ROW_BYTES, b_stride);
        TILE_DOT(0, 4, 6);
        TILE_DOT(1, 4, 7);
        TILE_DOT(2, 5, 6);
        TILE_DOT(3, 5, 7);
    }
    store_sums(sums);
}

const struct ah_tile_kernel ah_tile_amx = {
    .name = "amx",
    .isa = AH_ISA_AVX512,
    .words = AH_BF16,
    .reads_rows = true,
    .tile_cycles = 85,
    .begin = amx_begin,
    .end = amx_end,
    .multiply = multiply_amx,
    .store = ah_tile_store_dot,
};

#else

typedef int ah_tile_amx_has_no_code_here;

#endif
