/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the CPU device's ops: those of host/host.h and math/math.h, matrix products, and ops on slowed lanes.
 */
#include "runtime/device/cpu/cpu_internal.h"
#include "runtime/device/host/convert.h"
#include "runtime/device/math/math.h"

static void copy_bytes(const struct ah_cpu_task *task, uint64_t begin, uint64_t end)
{
    unsigned char *dst = ah_host_operand(&task->lane->host, &task->op, 0);
    const unsigned char *src = ah_host_operand(&task->lane->host, &task->op, 1);
    ah_convert_copy(task->lane->host.isa, dst + begin, src + begin, end - begin);
}

/* Copies in slices on a slowed lane, so that the rate adapts when the other direction starts or stops. */
static void copy_slowly(struct ah_cpu_task *task)
{
    struct ah_cpu_lane *lane = task->lane;
    uint64_t slice = ah_throttle_slice_bytes(&lane->throttle);
    uint64_t bytes = task->op.u.copy.bytes;
    for (uint64_t begin = 0; begin < bytes; begin += slice) {
        uint64_t end = bytes - begin > slice ? begin + slice : bytes;
        bool shared = lane->opposite && ah_lane_busy(lane->opposite);
        double rate = lane->throttle.work_per_s * (shared ? lane->both_kept : 1);
        copy_bytes(task, begin, end);
        ah_threads_sleep_until_ns(ah_throttle_pay(&lane->throttle, (double)(end - begin), rate));
    }
}

static int run_copy(struct ah_cpu_task *task)
{
    if (!ah_throttle_is_on(&task->lane->throttle)) {
        copy_bytes(task, 0, task->op.u.copy.bytes);
        return AH_OK;
    }
    ah_throttle_begin(&task->lane->throttle, ah_threads_now_ns());
    copy_slowly(task);
    return AH_OK;
}

static int run_matmul(struct ah_cpu_task *task, struct ah_error *err)
{
    const struct ah_host *host = &task->lane->host;
    const struct ah_matmul_args args = {
        .c = ah_host_operand(host, &task->op, 0),
        .a = ah_host_operand(host, &task->op, 1),
        .b = ah_host_operand(host, &task->op, 2),
        .bias = ah_host_operand(host, &task->op, 3),
        .c_stride = task->op.arg[0].row_stride,
        .a_stride = task->op.arg[1].row_stride,
        .b_stride = task->op.arg[2].row_stride,
        .alpha = task->op.u.matmul.alpha,
    };
    return ah_matmul_run(task->product, &args, host->pool, err);
}

bool ah_cpu_supports(enum ah_op_kind kind)
{
    return kind == AH_OP_MATMUL || ah_math_does(kind) || ah_host_does(kind);
}

/* Finds the work and the rate of an op on a slowed host lane. Returns false if the op is not slowed. */
static bool host_charge(const struct ah_cpu_task *task, double *ret_work, double *ret_work_per_s)
{
    bool adamw = task->op.kind == AH_OP_ADAMW;
    double rate = adamw ? task->lane->throttle.work_per_s : task->lane->bytes_per_s;
    if (task->op.kind == AH_OP_CALL || !(rate > 0))
        return false;
    *ret_work = (double)(adamw ? task->op.u.adamw.count : ah_op_moved_bytes(&task->op));
    *ret_work_per_s = rate;
    return true;
}

static int run_op(struct ah_cpu_task *task, struct ah_error *err)
{
    if (task->lane->opposite && task->op.kind == AH_OP_COPY)
        return run_copy(task);
    if (task->op.kind == AH_OP_MATMUL)
        return run_matmul(task, err);
    if (ah_math_does(task->op.kind)) {
        ah_math_run(&task->lane->host, &task->op);
        return AH_OK;
    }
    return ah_host_run(&task->lane->host, &task->op, err);
}

int ah_cpu_dispatch(struct ah_cpu_task *task, struct ah_error *err)
{
    struct ah_throttle *throttle = &task->lane->throttle;
    double work, work_per_s;
    if (!host_charge(task, &work, &work_per_s))
        return run_op(task, err);
    ah_throttle_begin(throttle, ah_threads_now_ns());
    int rc = run_op(task, err);
    ah_threads_sleep_until_ns(ah_throttle_pay(throttle, work, work_per_s));
    return rc;
}
