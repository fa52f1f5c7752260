/* SPDX-License-Identifier: Apache-2.0
 *
 * All products use one workspace, and the packed operands of all attention ops use another (device/cpu/cpu.c). Each
 * workspace is as large as the largest need of one op.
 */
#include "runtime/schedule/reserve.h"

#include "runtime/device/math/workspace.h"
#include "runtime/device/tile/blocking.h"
#include "runtime/schedule/program.h"

#include <stdlib.h>

/* The largest needs of any op so far, per thread. */
struct needs {
    unsigned threads;
    uint64_t product_bytes, other_bytes;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_op(struct needs *needs, const struct ah_op *op)
{
    if (op->kind == AH_OP_MATMUL) {
        const struct ah_matmul_shape shape = ah_blocking_shape(op);
        needs->product_bytes = larger(needs->product_bytes, ah_blocking_bytes(&shape, needs->threads));
    } else {
        needs->other_bytes = larger(needs->other_bytes, ah_workspace_bytes(op));
    }
}

static int add_group(struct needs *needs, const struct ah_job *job, const struct ah_job_group *group,
                     struct ah_program *program, struct ah_error *err)
{
    int rc = AH_OK;
    for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS && !rc; way++) {
            rc = ah_program_build(job, group, (enum ah_pass)pass, (enum ah_activations)way, program, err);
            for (size_t i = 0; !rc && i < program->n_ops; i++)
                add_op(needs, &program->ops[i].op);
        }
    return rc;
}

int ah_reserve_find(const struct ah_job *job, enum ah_device_kind kind, uint64_t threads, uint64_t *ret_bytes,
                    struct ah_error *err)
{
    struct needs needs = {.threads = (unsigned)threads};
    uint64_t bytes;
    *ret_bytes = 0;
    if (kind != AH_DEVICE_CPU)
        return AH_OK;
    struct ah_program *program = malloc(sizeof *program);
    int rc = program ? AH_OK : ah_error_memory(err);
    for (size_t g = 0; g < job->n_groups && !rc; g++)
        rc = add_group(&needs, job, &job->groups[g], program, err);
    free(program);
    if (__builtin_add_overflow(needs.product_bytes, needs.other_bytes, &bytes) ||
        __builtin_mul_overflow(bytes, threads, &bytes))
        bytes = UINT64_MAX;
    if (!rc)
        *ret_bytes = bytes;
    return rc;
}
