/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares matrix products through the device with double precision, for random shapes of all forms and types, and with
 * row strides. Bits are equal for 1 to 4 threads, and nothing outside c is written. Only the device's own threads run,
 * and running a product allocates nothing. tests/property/device_cpu/test_matmul.c tests products of older processors.
 */
#include "base/bf16.h"
#include "runtime/device/cpu/matmul.h"
#include "runtime/device/device.h"
#include "tests/support/check.h"

#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Under the thread sanitizer, a run takes a hundred times longer. */
#if defined(__SANITIZE_THREAD__)
enum { CASES = 3, MANY = 40 };
#else
enum { CASES = 40, MANY = 300 };
#endif
enum { THREADS = 4, GUARD = 256 };

#define ARENA (UINT64_C(48) << 20)

struct fixture {
    struct ah_device *devices[THREADS]; /* with 1 to 4 compute threads */
    uint64_t random;
};

static int setup(void **state)
{
    struct ah_error err = {0};
    struct fixture *f = calloc(1, sizeof *f);
    f->random = check_seed(4242);
    for (uint32_t i = 0; i < THREADS; i++) {
        struct ah_device_options options = {.compute_threads = i + 1, .host_threads = 1};
        const uint64_t arena_bytes[AH_ARENA_KINDS] = {[AH_ARENA_DEVICE] = ARENA};
        CHECK_OK(ah_device_open(&f->devices[i], ah_device_cpu(), &options, &err), err);
        CHECK_OK(ah_device_reserve(f->devices[i], arena_bytes, &err), err);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < THREADS; i++)
        ah_device_close(f->devices[i]);
    free(f);
    return 0;
}

static uint64_t below(struct fixture *f, uint64_t limit)
{
    return check_random(&f->random) % limit;
}

static unsigned char *at(struct ah_device *device, struct ah_ref ref)
{
    return ah_device_pointer(device, ref);
}

static float get(struct ah_device *device, struct ah_ref ref, uint64_t i)
{
    const void *data = at(device, ref);
    return ref.dtype == AH_BF16 ? ah_bf16_to_fp32(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

static void put_random(struct fixture *f, struct ah_ref ref, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = (float)(2 * check_uniform(&f->random) - 1);
        for (int d = 0; d < THREADS; d++)
            if (ref.dtype == AH_BF16)
                ((uint16_t *)(void *)at(f->devices[d], ref))[i] = ah_bf16_from_fp32(value);
            else
                ((float *)(void *)at(f->devices[d], ref))[i] = value;
    }
}

static uint64_t operand_elements(const struct ah_op_matmul *m, int arg)
{
    const uint64_t elements[] = {m->m * m->n, m->m * m->k, m->k * m->n, m->n};
    return elements[arg];
}

/* Places operands one after another, each followed by memory that must not change. */
static void lay_out(struct ah_op *op, int n_args)
{
    uint64_t offset = 64;
    for (int i = 0; i < n_args; i++) {
        op->arg[i].arena = AH_ARENA_DEVICE;
        op->arg[i].offset_bytes = offset;
        uint64_t bytes = operand_elements(&op->u.matmul, i) * ah_dtype_bytes((enum ah_dtype)op->arg[i].dtype);
        offset = (offset + bytes + GUARD + 3) / 4 * 4;
    }
    assert_true(offset <= ARENA);
}

static struct ah_op random_product(struct fixture *f)
{
    static const uint64_t sizes[] = {1,  2,   3,   15,  16,  17,  31,  33,  63,  64, 65,
                                     96, 127, 128, 129, 191, 192, 255, 384, 500, 769};
    static const float alphas[] = {0, 1, 0.5f, -3};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    struct ah_op op = {.kind = AH_OP_MATMUL};
    struct ah_op_matmul *m = &op.u.matmul;
    m->form = (uint32_t)below(f, 3);
    m->m = sizes[below(f, SIZES)];
    m->n = sizes[below(f, SIZES)];
    m->k = sizes[below(f, SIZES)];
    if (below(f, 10) == 0) { /* so that k is long enough to be cut */
        m->k = 16385 + below(f, 4000);
        m->m = 1 + below(f, 140);
        m->n = 1 + below(f, 70);
    }
    m->epilogue = below(f, 2) ? AH_EPILOGUE_BIAS : AH_EPILOGUE_NONE;
    m->accumulate = below(f, 3) == 0;
    m->alpha = alphas[below(f, 4)];
    op.arg[1].dtype = op.arg[2].dtype = (uint32_t)below(f, f->devices[0]->info.bf16 ? 2 : 1);
    if (op.arg[1].dtype == AH_BF16) {
        op.arg[0].dtype = (uint32_t)below(f, 2);
        op.arg[3].dtype = (uint32_t)below(f, 2);
    }
    lay_out(&op, m->epilogue == AH_EPILOGUE_BIAS ? 4 : 3);
    return op;
}

static void run(struct ah_device *device, const struct ah_op *op)
{
    struct ah_error err = {0};
    uint64_t ticket;
    CHECK_OK(ah_device_prepare(device, op, 1, &err), err);
    CHECK_OK(ah_device_submit(device, &(struct ah_submission){.op = op}, 1, &ticket, &err), err);
    CHECK_OK(ah_device_wait(device, AH_LANE_COMPUTE, ticket, &err), err);
}

/* Returns one element in double. `ret_size` gets the sum of its terms' magnitudes. */
static double exact(struct ah_device *device, const struct ah_op *op, uint64_t row, uint64_t column,
                    double before, double *ret_size)
{
    const struct ah_op_matmul *m = &op->u.matmul;
    const double alpha = m->alpha == 0 ? 1 : (double)m->alpha;
    double sum = m->accumulate ? before : 0;
    *ret_size = fabs(sum);
    for (uint64_t k = 0; k < m->k; k++) {
        uint64_t at_a = m->form == AH_MATMUL_TN ? k * m->m + row : row * m->k + k;
        uint64_t at_b = m->form == AH_MATMUL_NT ? column * m->k + k : k * m->n + column;
        double term = alpha * (double)get(device, op->arg[1], at_a) * (double)get(device, op->arg[2], at_b);
        sum += term;
        *ret_size += fabs(term);
    }
    if (op->arg[3].arena) {
        sum += (double)get(device, op->arg[3], column);
        *ret_size += fabs((double)get(device, op->arg[3], column));
    }
    return sum;
}

static void check_values(struct fixture *f, const struct ah_op *op, const float *before)
{
    const struct ah_op_matmul *m = &op->u.matmul;
    uint64_t n = m->m * m->n;
    uint64_t step = n * m->k > 2000000 ? n * m->k / 2000000 : 1;
    for (uint64_t i = below(f, step); i < n; i += 1 + below(f, 2 * step - 1)) {
        double size;
        double expected = exact(f->devices[0], op, i / m->n, i % m->n, (double)before[i], &size);
        double got = (double)get(f->devices[0], op->arg[0], i);
        double tolerance = size * 1e-6 + (op->arg[0].dtype == AH_BF16 ? fabs(expected) / 256 : 0);
        if (!(fabs(got - expected) <= tolerance))
            fail_msg("form %u, %llu x %llu x %llu: c[%llu] is %g, expected %g", m->form,
                     (unsigned long long)m->m, (unsigned long long)m->n, (unsigned long long)m->k,
                     (unsigned long long)i, got, expected);
    }
}

static void check_case(struct fixture *f, const struct ah_op *op)
{
    uint64_t c_bytes = operand_elements(&op->u.matmul, 0) * ah_dtype_bytes((enum ah_dtype)op->arg[0].dtype);
    uint64_t n = operand_elements(&op->u.matmul, 0);
    for (int d = 0; d < THREADS; d++)
        memset(at(f->devices[d], (struct ah_ref){AH_ARENA_DEVICE, 0, 0, 0}), 0xff, (size_t)ARENA / 4);
    for (int i = 0; i < 4; i++)
        if (op->arg[i].arena)
            put_random(f, op->arg[i], operand_elements(&op->u.matmul, i));
    float *before = malloc(n * sizeof *before);
    for (uint64_t i = 0; i < n; i++)
        before[i] = get(f->devices[0], op->arg[0], i);
    for (int d = 0; d < THREADS; d++)
        run(f->devices[d], op);
    for (int d = 1; d < THREADS; d++)
        if (memcmp(at(f->devices[0], op->arg[0]), at(f->devices[d], op->arg[0]), c_bytes) != 0)
            fail_msg("1 and %d threads give different bits", d + 1);
    const unsigned char *c = at(f->devices[0], op->arg[0]);
    for (int i = 1; i <= 60; i++)
        assert_true(c[-i] == 0xff && c[c_bytes + (uint64_t)i - 1] == 0xff);
    check_values(f, op, before);
    free(before);
}

TEST_IN(matmul, equals_double_precision, setup, teardown)
{
    struct fixture *f = *state;
    unsigned forms[3] = {0};
    for (int i = 0; i < CASES; i++) {
        struct ah_op op = random_product(f);
        forms[op.u.matmul.form]++;
        check_case(f, &op);
    }
    assert_true(CASES < 40 || (forms[0] && forms[1] && forms[2]));
}

TEST_IN(matmul, of_many_tiles, setup, teardown)
{
    struct fixture *f = *state;
    for (uint32_t form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++)
        for (uint32_t dtype = AH_FP32; dtype <= (f->devices[0]->info.bf16 ? AH_BF16 : AH_FP32); dtype++) {
            struct ah_op op = {.kind = AH_OP_MATMUL};
            op.u.matmul = (struct ah_op_matmul){.form = form, .m = MANY, .n = 1601, .k = 97};
            for (int i = 0; i < 3; i++)
                op.arg[i].dtype = dtype;
            lay_out(&op, 3);
            check_case(f, &op);
        }
}

/* If c, a and b are parts of wider matrices, the bits are those of dense matrices. */
TEST_IN(matmul, of_parts_of_wider_matrices, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_device *device = f->devices[1];
    for (uint32_t form = AH_MATMUL_NN; form <= AH_MATMUL_TN; form++) {
        struct ah_op dense = {.kind = AH_OP_MATMUL, .u.matmul = {.form = form, .m = 37, .n = 41, .k = 67}};
        lay_out(&dense, 3);
        put_random(f, dense.arg[1], 37 * 67);
        put_random(f, dense.arg[2], 41 * 67);
        run(device, &dense);
        struct ah_op parts = dense;
        const uint64_t rows[] = {37, form == AH_MATMUL_TN ? 67 : 37, form == AH_MATMUL_NT ? 41 : 67};
        const uint64_t widths[] = {41, form == AH_MATMUL_TN ? 37 : 67, form == AH_MATMUL_NT ? 67 : 41};
        for (uint32_t i = 0; i < 3; i++) {
            parts.arg[i].row_stride = widths[i] + 10 * i + 3;
            parts.arg[i].offset_bytes = ARENA / 2 + i * UINT64_C(65536);
            for (uint64_t row = 0; row < rows[i]; row++)
                memcpy(at(device, parts.arg[i]) + row * parts.arg[i].row_stride * 4,
                       at(device, dense.arg[i]) + row * widths[i] * 4, widths[i] * 4);
        }
        memset(at(device, parts.arg[0]), 0, (size_t)37 * 41 * 4);
        run(device, &parts);
        for (uint64_t row = 0; row < 37; row++)
            assert_memory_equal(at(device, parts.arg[0]) + row * parts.arg[0].row_stride * 4,
                                at(device, dense.arg[0]) + row * 41 * 4, 41 * 4);
    }
}

TEST_IN(matmul, must_be_prepared, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_error err = {0};
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = 11, .n = 13, .k = 1009}};
    lay_out(&op, 3);
    CHECK_FAILS(ah_device_submit(f->devices[0], &(struct ah_submission){.op = &op}, 1, NULL, &err), err,
                AH_E_USAGE, "not prepared");
    lay_out(&op, 4);
    op.u.matmul.epilogue = AH_EPILOGUE_BIAS_GELU;
    CHECK_FAILS(ah_device_prepare(f->devices[0], &op, 1, &err), err, AH_E_UNSUPPORTED, "gelu");
}

static unsigned count_threads(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* All threads belong to lanes and pools. */
TEST_IN(matmul, starts_no_threads_and_takes_no_memory, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_op op = {.kind = AH_OP_MATMUL,
                       .u.matmul = {.m = 2 * MANY, .n = 900, .k = 70, .form = AH_MATMUL_NT}};
    lay_out(&op, 3);
    unsigned before = count_threads();
    for (int d = 0; d < THREADS; d++)
        run(f->devices[d], &op);
    assert_int_equal(count_threads(), before);
    struct mallinfo2 held = mallinfo2();
    for (int i = 0; i < 20; i++)
        run(f->devices[1], &op);
    struct mallinfo2 now = mallinfo2();
    assert_int_equal(now.uordblks, held.uordblks);
    assert_true(now.hblks == held.hblks);
    assert_int_equal(count_threads(), before);
}

TEST_IN(matmul, reserve_is_known_after_prepare, setup, teardown)
{
    struct fixture *f = *state;
    struct ah_error err = {0};
    struct ah_op op = {.kind = AH_OP_MATMUL, .u.matmul = {.m = MANY, .n = 800, .k = 80}};
    lay_out(&op, 3);
    CHECK_OK(ah_device_prepare(f->devices[0], &op, 1, &err), err);
    uint64_t reserve = f->devices[0]->reserve_bytes;
    run(f->devices[0], &op);
    CHECK_OK(ah_device_prepare(f->devices[0], &op, 1, &err), err);
    assert_int_equal(f->devices[0]->reserve_bytes, reserve);
    assert_true(reserve < UINT64_C(64) << 20);
}
