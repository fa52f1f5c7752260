/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests thread blocks on the CPU: places, barriers, warp functions, divergence, shared memory and failing blocks. Where
 * the result must not depend on which thread runs first, a test checks several orders.
 */
#include "tests/double/cuda/double.h"
#include "tests/double/cuda/emulator.h"
#include "tests/support/check.h"
#include "tests/unit/cuda_double/kernels.h"

#include <string.h>

enum { WORDS = 1 << 16 };

static const uint64_t orders[] = {0, 1, 2, 12345};
enum { ORDERS = sizeof orders / sizeof orders[0] };

static struct kernel_case begin(uint64_t order, dim3 grid, dim3 block)
{
    struct kernel_case c = {.grid = grid, .block = block};
    struct cuda_double settings = cuda_double_default();
    settings.order = order;
    cuda_double_set(&settings);
    assert_int_equal(cudaStreamCreateWithFlags(&c.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&c.out, WORDS * sizeof *c.out), cudaSuccess);
    return c;
}

static void end(struct kernel_case *c)
{
    (void)cudaStreamDestroy(c->stream);
    (void)cudaFree(c->out);
    assert_int_equal(cuda_double_alive().device_bytes, 0);
    assert_int_equal(cuda_double_alive().streams, 0);
}

static void finish(const struct kernel_case *c)
{
    char report[CUDA_DOUBLE_REPORT_MAX];
    if (cudaStreamSynchronize(c->stream) == cudaSuccess)
        return;
    cuda_double_report(report);
    fail_msg("%s", report);
}

static dim3 along(unsigned n)
{
    return (dim3){n, 1, 1};
}

TEST(emulator, every_thread_has_its_place)
{
    const dim3 grid = {3, 2, 2}, block = {5, 7, 3};
    struct kernel_case c = begin(0, grid, block);
    assert_int_equal(kernel_places(&c), cudaSuccess);
    finish(&c);
    unsigned i = 0;
    for (unsigned b = 0; b < grid.x * grid.y * grid.z; b++)
        for (unsigned z = 0; z < block.z; z++)
            for (unsigned y = 0; y < block.y; y++)
                for (unsigned x = 0; x < block.x; x++)
                    assert_int_equal(c.out[i++], x + 100 * y + 10000 * z + 1000000 * b);
    end(&c);
}

TEST(emulator, barriers_hold_all_threads)
{
    static const unsigned sizes[] = {1, 2, 31, 32, 33, 256, 1024};
    enum { ROUNDS = 5, BLOCKS = 3 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t o = 0; o < ORDERS; o++) {
            const unsigned n = sizes[s];
            struct kernel_case c = begin(orders[o], along(BLOCKS), along(n));
            c.shared_bytes = n * sizeof(unsigned);
            assert_int_equal(kernel_around(&c, ROUNDS), cudaSuccess);
            finish(&c);
            for (unsigned i = 0; i < BLOCKS * n; i++)
                assert_int_equal(c.out[i], (i % n + ROUNDS) % n + ROUNDS);
            end(&c);
        }
}

TEST(emulator, sums_blocks_with_shuffles)
{
    for (unsigned warps = 1; warps <= 32; warps += 3) {
        const unsigned n = 32 * warps;
        struct kernel_case c = begin(warps % 2, along(4), (dim3){n / 8, 2, 4});
        assert_int_equal(kernel_block_sums(&c), cudaSuccess);
        finish(&c);
        for (unsigned block = 0; block < 4; block++)
            assert_int_equal(c.out[block], n * (n - 1) / 2);
        end(&c);
    }
}

static unsigned bits_of(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Returns the thread at lane `from` of the segment of `width` lanes containing thread i. */
static unsigned lane_of(unsigned i, unsigned from, unsigned width)
{
    return i / width * width + from % width;
}

static void check_shuffles(const unsigned *out, unsigned i, unsigned width)
{
    const unsigned place = i % width;
    const unsigned *mine = out + 8 * i;
    assert_int_equal(mine[0], lane_of(i, 5, width));
    assert_int_equal(mine[1], width > 3 ? i ^ 3 : lane_of(i, place, width));
    assert_int_equal(mine[2], place >= 2 ? i - 2 : i);
    assert_int_equal(mine[3], place + 2 < width ? i + 2 : i);
    assert_int_equal(mine[4], i ^ 1);
    assert_int_equal(mine[5], bits_of((float)lane_of(i, 31, width)));
    assert_int_equal(mine[6], place + 1 < width ? i + 1 : i);
    assert_int_equal(mine[7], lane_of(i, i * 7, width));
}

TEST(emulator, shuffles_as_cuda_does)
{
    static const unsigned widths[] = {32, 16, 8, 4};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (size_t o = 0; o < ORDERS; o++) {
            struct kernel_case c = begin(orders[o], along(1), along(96));
            assert_int_equal(kernel_shuffles(&c, (int)widths[w]), cudaSuccess);
            finish(&c);
            for (unsigned i = 0; i < 96; i++)
                check_shuffles(c.out, i, widths[w]);
            end(&c);
        }
}

static void check_votes(const unsigned *out, unsigned i)
{
    unsigned ballot = 0, sum = 0, equals = 0;
    for (unsigned lane = i % 2; lane < 32; lane += 2) {
        const unsigned number = i / 32 * 32 + lane;
        ballot |= (unsigned)(number % 3 == 0) << lane;
        equals |= (unsigned)(number % 3 == i % 3) << lane;
        sum += number % 3;
    }
    assert_int_equal(out[5 * i], ballot);
    assert_int_equal(out[5 * i + 1], i % 2);
    assert_int_equal(out[5 * i + 2], i % 2 == 0);
    assert_int_equal(out[5 * i + 3], sum);
    assert_int_equal(out[5 * i + 4], equals);
}

TEST(emulator, votes_among_lanes_of_a_mask)
{
    for (size_t o = 0; o < ORDERS; o++) {
        struct kernel_case c = begin(orders[o], along(1), along(64));
        assert_int_equal(kernel_votes(&c), cudaSuccess);
        finish(&c);
        for (unsigned i = 0; i < 64; i++)
            check_votes(c.out, i);
        end(&c);
    }
}

/* Odd lanes loop five times while even lanes loop three times. */
TEST(emulator, warps_diverge_and_meet_again)
{
    const unsigned sums[2] = {0 + 2 + 4, 1 + 3 + 5 + 7 + 9};
    for (size_t o = 0; o < ORDERS; o++) {
        struct kernel_case c = begin(orders[o], along(1), along(32));
        assert_int_equal(kernel_diverges(&c), cudaSuccess);
        finish(&c);
        for (unsigned i = 0; i < 32; i++)
            assert_int_equal(c.out[i], sums[i % 2] + 1000 * sums[(i + 1) % 2]);
        end(&c);
    }
}

TEST(emulator, barriers_do_not_wait_for_threads_that_returned)
{
    for (unsigned leaves = 1; leaves < 70; leaves += 17)
        for (size_t o = 0; o < ORDERS; o++) {
            struct kernel_case c = begin(orders[o], along(2), along(70));
            assert_int_equal(kernel_returns_early(&c, leaves), cudaSuccess);
            finish(&c);
            for (unsigned i = 0; i < leaves; i++)
                assert_int_equal(c.out[i], 3000 + (leaves + 1) / 2);
            end(&c);
        }
}

/* Shared memory begins with poison: neither zeros nor the previous block's values. */
TEST(emulator, shared_memory_begins_poisoned)
{
    enum { THREADS = 64, BLOCKS = 5 };
    struct kernel_case c = begin(0, along(BLOCKS), along(THREADS));
    c.shared_bytes = THREADS * sizeof(unsigned);
    for (unsigned round = 0; round < 2; round++) {
        memset(c.out, 0, WORDS * sizeof *c.out);
        assert_int_equal(kernel_looks_at_shared(&c), cudaSuccess);
        finish(&c);
        for (unsigned i = 0; i < 2 * THREADS * BLOCKS; i++)
            assert_int_equal(c.out[i], 0xffffffffu);
    }
    end(&c);
}

/* Blocks run on several system threads at once. */
TEST(emulator, atomics_miss_no_thread)
{
    enum { THREADS = 100, BLOCKS = 40 };
    static bool seen[THREADS * BLOCKS];
    struct kernel_case c = begin(7, along(BLOCKS), along(THREADS));
    memset(seen, 0, sizeof seen);
    c.out[0] = 0;
    assert_int_equal(kernel_counts(&c), cudaSuccess);
    finish(&c);
    assert_int_equal(c.out[0], THREADS * BLOCKS);
    for (unsigned i = 1; i <= THREADS * BLOCKS; i++) {
        assert_true(c.out[i] < THREADS * BLOCKS && !seen[c.out[i]]);
        seen[c.out[i]] = true;
    }
    end(&c);
}

/* Expected values are worked out by hand from CUDA's manual, or computed in double. */
TEST(emulator, intrinsics_have_cudas_bits)
{
    const unsigned expected[] = {
        0x77225500u, /* selects bytes 0, 5, 2 and 7, the lowest first */
        0xffffffffu, 3,           0xc0000000u, 3,  8,   31, 4, bits_of(0x1p-11f + 0x1p-24f),
        0x3eaaaaabu, 0x3fb504f3u, 24,          79, 420, 5,  6};
    struct kernel_case c = begin(0, along(1), along(1));
    assert_int_equal(kernel_intrinsics(&c), cudaSuccess);
    finish(&c);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        if (c.out[i] != expected[i])
            fail_msg("result %zu is %#x, not %#x", i, c.out[i], expected[i]);
    end(&c);
}

/* Checks that the kernel broke the device and that the report gives the reason. */
static void expect_broken(struct kernel_case *c, cudaError_t code, const char *first, const char *second)
{
    char report[CUDA_DOUBLE_REPORT_MAX];
    assert_int_equal(cudaStreamSynchronize(c->stream), code);
    cuda_double_report(report);
    check_text_has(report, first);
    check_text_has(report, second);
    assert_int_equal(cudaGetLastError(), code);
    assert_int_equal(cudaGetLastError(), code); /* nothing clears the error */
    assert_int_equal(kernel_places(c), code);
    end(c);
}

TEST(emulator, a_block_that_is_stuck_fails)
{
    struct kernel_case c = begin(0, along(1), along(64));
    assert_int_equal(kernel_sticks(&c), cudaSuccess);
    expect_broken(&c, cudaErrorLaunchTimeout, "32 wait at a barrier (thread 0)",
                  "32 wait with lanes (thread 1");
}

TEST(emulator, lanes_with_different_masks_do_not_meet)
{
    struct kernel_case c = begin(0, along(1), along(32));
    assert_int_equal(kernel_disagrees(&c), cudaSuccess);
    expect_broken(&c, cudaErrorLaunchTimeout, "32 wait with lanes (thread 0, mask 0x00000003", "0 returned");
}

TEST(emulator, runs_again_after_a_block_that_was_stuck)
{
    for (unsigned round = 0; round < 3; round++) {
        struct kernel_case c = begin(0, along(1), along(64));
        assert_int_equal(kernel_sticks(&c), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(c.stream), cudaErrorLaunchTimeout);
        struct cuda_double settings = cuda_double_default();
        cuda_double_set(&settings);
        assert_int_equal(kernel_block_sums(&c), cudaSuccess); /* runs on the same stacks */
        finish(&c);
        assert_int_equal(c.out[0], 64 * 63 / 2);
        end(&c);
    }
}

TEST(emulator, a_trap_fails_the_launch)
{
    struct kernel_case c = begin(0, (dim3){1, 99, 1}, along(64));
    assert_int_equal(kernel_traps(&c, 33), cudaSuccess);
    expect_broken(&c, cudaErrorLaunchFailure, "'traps', block (0, ",
                  "of 64 threads: thread 33 executes __trap()");
}

TEST(emulator, refuses_what_is_not_aligned)
{
    struct kernel_case c = begin(0, along(1), along(32));
    assert_int_equal(kernel_misaligned(&c), cudaSuccess);
    expect_broken(&c, cudaErrorLaunchFailure, "thread 0", "alignment");
}

TEST(emulator, refuses_masks_without_the_caller)
{
    struct kernel_case c = begin(0, along(1), along(32));
    assert_int_equal(kernel_mask_without_itself(&c), cudaSuccess);
    expect_broken(&c, cudaErrorLaunchFailure, "thread 0", "leaves itself out");
}
