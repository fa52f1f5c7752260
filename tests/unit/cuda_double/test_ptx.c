/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the PTX machine: divergence, barriers, lanes acting together, tiles, background copies, approximations, and the
 * PTX that must be refused. (device.ptx.* tests that it runs the kernels as their source says.)
 */
#include "tests/double/cuda/ptx/ptx.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 4096 };

/* An entry. It sets %rd1 to the address of `out`, %r1 to the thread number and %rd2 to the address of out[thread]. It
 * has 4 KiB of shared memory. At its end, it sets out[thread] = %r9. */
static const char head[] =
    ".version 9.0\n.entry kernel(.param .u64 kernel_param_0)\n{\n"
    ".reg .pred %p<9>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<9>;\n"
    ".shared .align 128 .b8 memory[4096];\n"
    "ld.param.u64 %rd1, [kernel_param_0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
    "add.s64 %rd2, %rd1, %rd2;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, memory;\nadd.s32 %r4, %r3, %r2;\n";
static const char tail[] = "st.global.u32 [%rd2], %r9;\nret;\n}\n";

struct machine {
    uint32_t words[WORDS];
    char report[EMULATOR_REPORT_MAX];
};

static enum emulator_result run(struct machine *m, const char *body, unsigned threads)
{
    char text[8192];
    uint64_t next_block = 0;
    uint32_t *words = m->words;
    (void)snprintf(text, sizeof text, "%s%s%s", head, body, tail);
    m->report[0] = '\0';
    struct ptx_kernel *kernel = ptx_read(text, m->report);
    const struct emulator_launch launch = {.name = "kernel",
                                           .code = kernel,
                                           .parameters = &words,
                                           .parameters_bytes = sizeof words,
                                           .grid = {1, 1, 1},
                                           .block = {threads, 1, 1},
                                           .next_block = &next_block};
    const enum emulator_result result = kernel ? ptx_run(&launch, m->report) : EMULATOR_TRAPPED;
    ptx_free(kernel);
    return result;
}

static void check_runs(struct machine *m, const char *body, unsigned threads)
{
    if (run(m, body, threads) != EMULATOR_DONE)
        fail_msg("%s", m->report);
}

static void check_refuses(const char *body, unsigned threads, const char *words)
{
    struct machine m = {{0}, ""};
    if (run(&m, body, threads) == EMULATOR_DONE)
        fail_msg("runs, and should say '%s':\n%s", words, body);
    if (!strstr(m.report, words))
        fail_msg("says '%s', not '%s'", m.report, words);
}

TEST(ptx, lanes_part_and_meet)
{
    /* Each lane loops as many times as its number says. Afterwards all lanes shuffle. */
    static const char body[] = "mov.u32 %r9, 0;\nmov.u32 %r10, 0;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra DONE;\n"
                               "ROUND:\nadd.s32 %r9, %r9, %r10;\nadd.s32 %r10, %r10, 1;\n"
                               "setp.lt.u32 %p2, %r10, %r1;\n@%p2 bra ROUND;\n"
                               "DONE:\nmov.u32 %r11, 31;\nmov.u32 %r12, -1;\n"
                               "shfl.sync.bfly.b32 %r9|%p3, %r9, 1, %r11, %r12;\n";
    struct machine m = {{0}, ""};
    check_runs(&m, body, 96);
    for (unsigned i = 0; i < 96; i++)
        assert_int_equal(m.words[i], (i ^ 1) * ((i ^ 1) ? (i ^ 1) - 1 : 0) / 2);
}

TEST(ptx, guards_and_votes)
{
    static const char body[] =
        "and.b32 %r5, %r1, 3;\nsetp.eq.s32 %p1, %r5, 1;\nmov.u32 %r9, 7;\n@%p1 mov.u32 %r9, 8;\n"
        "@!%p1 add.s32 %r9, %r9, 100;\nmov.u32 %r6, -1;\nvote.sync.ballot.b32 %r7, %p1, %r6;\n"
        "add.s32 %r9, %r9, %r7;\nredux.sync.max.u32 %r8, %r1, %r6;\nadd.s32 %r9, %r9, %r8;\n";
    struct machine m = {{0}, ""};
    check_runs(&m, body, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(m.words[i], (i % 4 == 1 ? 8 : 107) + 0x22222222u + i / 32 * 32 + 31);
}

TEST(ptx, threads_that_return_are_not_waited_for)
{
    struct machine m = {{0}, ""};
    check_runs(&m, "setp.gt.u32 %p1, %r1, 39;\n@%p1 ret;\nbar.sync 0;\nmov.u32 %r9, 5;\n", 100);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(m.words[i], i < 40 ? 5 : 0);
}

TEST(ptx, lanes_that_never_come)
{
    check_refuses(
        "setp.gt.u32 %p1, %r1, 4;\n@%p1 bra BEHIND;\nbar.sync 0;\nBEHIND:\nmov.u32 %r9, 1;\nbar.sync 0;\n",
        32, "are at the barrier");
    check_refuses("mov.u32 %r5, 255;\nsetp.gt.u32 %p1, %r1, 3;\n@%p1 bra BEHIND;\nbar.warp.sync "
                  "255;\nBEHIND:\nbar.sync 0;\n",
                  32, "are at the barrier");
    check_refuses("mov.u32 %r5, 1;\nvote.sync.any.pred %p2, %p1, %r5;\n", 32, "leaves it out");
    check_refuses("mov.u32 %r5, 31;\nmov.u32 %r6, 15;\nsetp.gt.u32 %p1, %r1, 3;\n@%p1 bra BEHIND;\n"
                  "shfl.sync.bfly.b32 %r9|%p2, %r1, 8, %r5, %r6;\nBEHIND:\nmov.u32 %r9, 1;\n",
                  32, "is not here");
}

TEST(ptx, missing_barriers)
{
    static const struct {
        unsigned apart; /* bytes between the word that a thread writes and the word it reads */
        const char *between, *refusal;
    } cases[] = {{128, "", "no barrier between"},
                 {128, "bar.sync 0;\n", NULL},
                 {128, "bar.warp.sync -1;\n", "no barrier between"},
                 {4, "", "no barrier between"},
                 {4, "bar.warp.sync -1;\n", NULL},
                 {4, "bar.sync 0;\n", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int reads_first = 0; reads_first < 2; reads_first++) {
            static const char write[] = "st.shared.u32 [%r4], %r1;\n", read[] = "ld.shared.u32 %r9, [%r5];\n";
            struct machine m = {{0}, ""};
            char body[512];
            (void)snprintf(body, sizeof body, "xor.b32 %%r5, %%r2, %u;\nadd.s32 %%r5, %%r3, %%r5;\n%s%s%s",
                           cases[i].apart, reads_first ? read : write, cases[i].between,
                           reads_first ? write : read);
            if (cases[i].refusal)
                check_refuses(body, 64, cases[i].refusal);
            else
                check_runs(&m, body, 64);
            for (unsigned t = 0; t < 64 && !cases[i].refusal && !reads_first; t++)
                assert_int_equal(m.words[t], t ^ cases[i].apart / 4);
        }
}

TEST(ptx, places)
{
    check_refuses("ld.shared.u32 %r9, [%r4+4096];\n", 32, "4096 bytes of shared memory");
    check_refuses("ld.shared.u32 %r9, [%r4+2];\n", 32, "no multiple of 4");
    check_refuses("ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd2+4];\n", 32, "no multiple of 16");
    check_refuses("mov.u64 %rd3, 0;\nld.global.u32 %r9, [%rd3];\n", 32, "of global memory");
    check_refuses("ld.param.u64 %rd3, [kernel_param_0+8];\n", 32, "parameters");
    check_refuses(
        "add.s32 %r5, %r4, 8;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9,%r10,%r11,%r12}, [%r5];\n", 32,
        "no multiple of 16");
}

TEST(ptx, text_that_is_not_known)
{
    check_refuses("frobnicate.u32 %r9, %r1;\n", 1,
                  "text:16: an instruction that is not known: frobnicate.u32");
    check_refuses("bra NOWHERE;\n", 1, "no such label");
    check_refuses("mov.u32 %q1, 0;\n", 1, "no such register");
    check_refuses("mov.u32 %r1, nothing;\n", 1, "no such variable");
}

TEST(ptx, copies_come_when_they_are_waited_for)
{
    static const char copies[] =
        "shl.b32 %r5, %r1, 4;\nadd.s32 %r6, %r3, %r5;\nmul.wide.u32 %rd3, %r1, 16;\n"
        "add.s64 %rd3, %rd1, %rd3;\nmov.u32 %r7, 12;\n"
        "cp.async.cg.shared.global [%r6], [%rd3], 16, %r7;\ncp.async.commit_group;\n"
        "cp.async.wait_group %s;\nbar.sync 0;\nld.shared.u32 %r9, [%r4];\nbar.sync 0;\n";
    for (int waits = 0; waits < 2; waits++) {
        struct machine m = {{0}, ""};
        char body[1024];
        for (unsigned i = 0; i < 256; i++)
            m.words[i] = i + 1;
        (void)snprintf(body, sizeof body, "%.*s%s%s", (int)(strstr(copies, "%s") - copies), copies,
                       waits ? "0" : "1", strstr(copies, "%s") + 2);
        check_runs(&m, body, 64);
        for (unsigned i = 0; i < 64; i++)
            assert_int_equal(m.words[i], waits ? (i % 4 == 3 ? 0 : i + 1) : UINT32_MAX);
    }
}

static uint16_t half_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* c = a b in small integers, so exact. a (16, 16) is in words 0 to 127, b (16, 8), by columns, in words 128 to 191. */
TEST(ptx, tiles)
{
    /* Lane l loads row l % 16 of a, from column 8 (l / 16) on, and column l % 8 of b, from row 8 (l / 8 % 2) on. */
    static const char body[] =
        "mov.u32 %r5, 0;\nCOPY:\nshl.b32 %r6, %r5, 7;\nadd.s32 %r6, %r6, %r2;\ncvt.u64.u32 %rd3, %r6;\n"
        "add.s64 %rd3, %rd1, %rd3;\nld.global.u32 %r7, [%rd3];\nadd.s32 %r6, %r6, %r3;\nst.shared.u32 [%r6], "
        "%r7;\n"
        "add.s32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 6;\n@%p1 bra COPY;\nbar.sync 0;\n"
        "and.b32 %r10, %r1, 15;\nshl.b32 %r10, %r10, 5;\nshr.u32 %r11, %r1, 4;\nshl.b32 %r11, %r11, 4;\n"
        "add.s32 %r10, %r10, %r11;\nadd.s32 %r10, %r10, %r3;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20,%r21,%r22,%r23}, [%r10];\n"
        "and.b32 %r12, %r1, 7;\nshl.b32 %r12, %r12, 5;\nshr.u32 %r13, %r1, 3;\nand.b32 %r13, %r13, 1;\n"
        "shl.b32 %r13, %r13, 4;\nadd.s32 %r12, %r12, %r13;\nadd.s32 %r12, %r12, %r3;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r24,%r25,%r26,%r27}, [%r12+512];\n"
        "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f00000000;\nmov.f32 %f3, 0f00000000;\nmov.f32 %f4, "
        "0f00000000;\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4}, {%r20,%r21,%r22,%r23}, "
        "{%r24,%r25}, "
        "{%f1,%f2,%f3,%f4};\n"
        "shl.b32 %r14, %r1, 4;\ncvt.u64.u32 %rd4, %r14;\nadd.s64 %rd4, %rd1, %rd4;\n"
        "st.global.v4.f32 [%rd4+4096], {%f1,%f2,%f3,%f4};\nmov.u32 %r9, 0;\n";
    uint64_t random = check_seed(91);
    struct machine m = {{0}, ""};
    uint16_t *a = (uint16_t *)m.words, *b = a + 256;
    float expected[16][8] = {{0}}, c[4];
    for (unsigned i = 0; i < 384; i++)
        a[i] = half_of((float)(check_random(&random) % 15) - 7);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned column = 0; column < 8; column++)
            for (unsigned k = 0; k < 16; k++) {
                const uint32_t left = (uint32_t)a[row * 16 + k] << 16,
                               right = (uint32_t)b[column * 16 + k] << 16;
                float x, y;
                memcpy(&x, &left, sizeof x);
                memcpy(&y, &right, sizeof y);
                expected[row][column] += x * y;
            }
    check_runs(&m, body, 32);
    for (unsigned lane = 0; lane < 32; lane++) {
        memcpy(c, &m.words[1024 + lane * 4], sizeof c);
        for (unsigned i = 0; i < 4; i++) {
            const float is = c[i] - (i ? 0.0f : 1.0f),
                        should = expected[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
            if (is != should)
                fail_msg("lane %u has %g in its place %u, not %g", lane, (double)is, i, (double)should);
        }
    }
}

TEST(ptx, tiles_take_the_whole_warp)
{
    check_refuses(
        "setp.gt.u32 %p1, %r1, 15;\n@%p1 bra BEHIND;\n"
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r9,%r10,%r11,%r12}, [%r3];\nBEHIND:\nmov.u32 %r9, 0;\n",
        32, "takes the whole warp");
}

static void check_errors(const char *body, double (*exact)(double), double most)
{
    struct machine m = {{0}, ""};
    bool above = false, below = false;
    for (unsigned i = 0; i < 1024; i++) {
        const float x = 0.3f + (float)i / 700;
        memcpy(&m.words[i], &x, sizeof x);
    }
    check_runs(&m, body, 1024);
    for (unsigned i = 0; i < 1024; i++) {
        const double x = (double)(0.3f + (float)i / 700);
        float y;
        memcpy(&y, &m.words[i], sizeof y);
        const double error = (double)y / exact(x) - 1;
        above = above || error > most / 2;
        below = below || error < -most / 2;
        assert_true(fabs(error) <= most);
    }
    assert_true(above && below);
}

static double inverse(double x)
{
    return 1 / x;
}

TEST(ptx, approximations_are_as_far_off_as_they_may)
{
    check_errors("ld.global.f32 %f1, [%rd2];\nex2.approx.ftz.f32 %f2, %f1;\nmov.b32 %r9, %f2;\n", exp2,
                 0x1p-22 + 0x1p-24);
    check_errors("ld.global.f32 %f1, [%rd2];\nrcp.approx.ftz.f32 %f2, %f1;\nmov.b32 %r9, %f2;\n", inverse,
                 0x1p-23);
}
