/* SPDX-License-Identifier: Apache-2.0
 *
 * From an op to its kernel: a table by kind. Operands were checked at submit (op.c); here they become pointers,
 * and the work is split over the lane's pool in pieces that do not change the result.
 */
#include "runtime/device/cpu/adamw.h"
#include "runtime/device/cpu/clip.h"
#include "runtime/device/cpu/convert.h"
#include "runtime/device/cpu/cpu_internal.h"
#include "runtime/device/cpu/reduce.h"

/* Pieces of a split: elements, bytes of a copy, columns. */
enum { PIECE_ELEMENTS = 1 << 16, PIECE_BYTES = 1 << 21, PIECE_COLUMNS = 128 };

_Static_assert((int)AH_OP_SUM_LEAF == (int)AH_REDUCE_LEAF, "tiles begin at leaves");

typedef int dispatch_fn(struct ah_cpu_task *task, struct ah_error *err);

static void *pointer(const struct ah_cpu_task *task, size_t arg)
{
    struct ah_ref ref = task->op.arg[arg];
    return task->device->arenas[ref.arena].data + ref.offset_bytes;
}

static void *optional_pointer(const struct ah_cpu_task *task, size_t arg)
{
    return task->op.arg[arg].arena == AH_ARENA_NONE ? NULL : pointer(task, arg);
}

static struct ah_convert_out out(const struct ah_cpu_task *task, size_t arg)
{
    return (struct ah_convert_out){pointer(task, arg), (enum ah_dtype)task->op.arg[arg].dtype};
}

static struct ah_convert_in in(const struct ah_cpu_task *task, size_t arg)
{
    return (struct ah_convert_in){pointer(task, arg), (enum ah_dtype)task->op.arg[arg].dtype};
}

typedef void work_fn(const struct ah_cpu_task *task, uint64_t begin, uint64_t end);
typedef void row_fn(const struct ah_cpu_task *task, uint64_t row, uint64_t begin, uint64_t end);

/* Splits [0, count) into pieces; `work` does one. */
struct split {
    const struct ah_cpu_task *task;
    work_fn *work;
    uint64_t count;
    uint64_t piece;
};

static void split_piece(void *context, size_t chunk, unsigned worker)
{
    const struct split *split = context;
    uint64_t begin = chunk * split->piece;
    uint64_t end = split->count - begin > split->piece ? begin + split->piece : split->count;
    (void)worker;
    split->work(split->task, begin, end);
}

static int split_run(struct split split)
{
    uint64_t pieces = split.count / split.piece + (split.count % split.piece != 0);
    ah_pool_run(split.task->lane->pool, split_piece, &split, pieces);
    return AH_OK;
}

static void work_copy(const struct ah_cpu_task *task, uint64_t begin, uint64_t end)
{
    unsigned char *dst = pointer(task, 0);
    const unsigned char *src = pointer(task, 1);
    ah_convert_copy(task->device->isa, dst + begin, src + begin, end - begin);
}

/* Bytes from the first row of an operand of elementwise ops to row `row`. */
static uint64_t row_at(const struct ah_cpu_task *task, size_t arg, uint64_t row)
{
    const struct ah_ref *ref = &task->op.arg[arg];
    uint64_t stride = ref->row_stride ? ref->row_stride : task->op.u.elements.count;
    return row * stride * ah_dtype_bytes((enum ah_dtype)ref->dtype);
}

static struct ah_convert_out out_row(const struct ah_cpu_task *task, size_t arg, uint64_t row)
{
    struct ah_convert_out first = out(task, arg);
    return (struct ah_convert_out){(unsigned char *)first.data + row_at(task, arg, row), first.dtype};
}

static struct ah_convert_in in_row(const struct ah_cpu_task *task, size_t arg, uint64_t row)
{
    struct ah_convert_in first = in(task, arg);
    return (struct ah_convert_in){(const unsigned char *)first.data + row_at(task, arg, row), first.dtype};
}

static void row_fill(const struct ah_cpu_task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_fill(out_row(task, 0, row), task->op.u.elements.value, begin, end);
}

static void row_cast(const struct ah_cpu_task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_cast(task->device->isa, out_row(task, 0, row), in_row(task, 1, row), begin, end);
}

static void row_add(const struct ah_cpu_task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_add(task->device->isa, out_row(task, 0, row), in_row(task, 1, row), in_row(task, 2, row),
                   begin, end);
}

static void row_accumulate(const struct ah_cpu_task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_add(task->device->isa, out_row(task, 0, row), in_row(task, 0, row), in_row(task, 1, row),
                   begin, end);
}

static row_fn *const row_of_kind[AH_OP_KINDS] = {
    [AH_OP_FILL] = row_fill,
    [AH_OP_CAST] = row_cast,
    [AH_OP_ADD] = row_add,
    [AH_OP_ACCUMULATE] = row_accumulate,
};

/* Elements [begin, end) of all rows, one row after another. */
static void work_elements(const struct ah_cpu_task *task, uint64_t begin, uint64_t end)
{
    const uint64_t count = task->op.u.elements.count;
    while (begin < end) {
        uint64_t row = begin / count, first = begin - row * count;
        uint64_t n = end - begin < count - first ? end - begin : count - first;
        row_of_kind[task->op.kind](task, row, first, first + n);
        begin += n;
    }
}

static void work_column_sum(const struct ah_cpu_task *task, uint64_t begin, uint64_t end)
{
    const struct ah_op_rows *rows = &task->op.u.rows;
    uint64_t stride = task->op.arg[1].row_stride ? task->op.arg[1].row_stride : rows->width;
    struct ah_convert_matrix matrix = {in(task, 1), rows->rows, stride};
    ah_convert_column_sum(task->device->isa, out(task, 0), &matrix, begin, end);
}

static void work_adamw(const struct ah_cpu_task *task, uint64_t begin, uint64_t end)
{
    const struct ah_op *op = &task->op;
    struct ah_adamw_arrays arrays = {
        .master = pointer(task, 0),
        .m = pointer(task, 1),
        .v = pointer(task, 2),
        .gradient = pointer(task, 3),
        .weight = optional_pointer(task, 4),
        .state_dtype = (enum ah_dtype)op->arg[1].dtype,
        .gradient_dtype = (enum ah_dtype)op->arg[3].dtype,
        .weight_dtype = (enum ah_dtype)op->arg[4].dtype,
        .decay = op->u.adamw.decay,
        .block = op->u.adamw.block,
        .first_element = op->u.adamw.first_element,
    };
    ah_adamw_run(task->device->isa, &arrays, pointer(task, 5), begin, end);
}

static uint64_t count_elements(const struct ah_op *op)
{
    return op->u.elements.count * (op->u.elements.rows ? op->u.elements.rows : 1);
}

static uint64_t count_columns(const struct ah_op *op)
{
    return op->u.rows.width;
}

static uint64_t count_params(const struct ah_op *op)
{
    return op->u.adamw.count;
}

/* Kinds whose work is a split and nothing else: how much there is, and in pieces of what size. */
static const struct {
    work_fn *work;
    uint64_t (*count)(const struct ah_op *op);
    uint64_t piece;
} splits[AH_OP_KINDS] = {
    [AH_OP_FILL] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_CAST] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_ADD] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_ACCUMULATE] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_COLUMN_SUM] = {work_column_sum, count_columns, PIECE_COLUMNS},
    [AH_OP_ADAMW] = {work_adamw, count_params, PIECE_ELEMENTS},
};

static int run_split(struct ah_cpu_task *task, struct ah_error *err)
{
    enum ah_op_kind kind = task->op.kind;
    (void)err;
    return split_run(
        (struct split){task, splits[kind].work, splits[kind].count(&task->op), splits[kind].piece});
}

/* A slowed copy goes in slices, so that it shares the link with the other direction as both go along. */
static void copy_slowly(struct ah_cpu_task *task)
{
    struct ah_cpu_lane *lane = task->lane;
    uint64_t slice = ah_throttle_slice_bytes(&lane->throttle);
    uint64_t bytes = task->op.u.copy.bytes;
    for (uint64_t begin = 0; begin < bytes; begin += slice) {
        uint64_t end = bytes - begin > slice ? begin + slice : bytes;
        bool shared = lane->opposite && ah_lane_busy(lane->opposite);
        double rate = lane->throttle.work_per_s * (shared ? lane->both_kept : 1);
        work_copy(task, begin, end);
        ah_threads_sleep_until_ns(ah_throttle_pay(&lane->throttle, (double)(end - begin), rate));
    }
}

static int run_copy(struct ah_cpu_task *task, struct ah_error *err)
{
    (void)err;
    if (!task->lane->opposite)
        return split_run((struct split){task, work_copy, task->op.u.copy.bytes, PIECE_BYTES});
    if (!ah_throttle_is_on(&task->lane->throttle)) {
        work_copy(task, 0, task->op.u.copy.bytes);
        return AH_OK;
    }
    ah_throttle_begin(&task->lane->throttle, ah_threads_now_ns());
    copy_slowly(task);
    return AH_OK;
}

static int run_sum(struct ah_cpu_task *task, struct ah_error *err)
{
    const struct ah_op *op = &task->op;
    struct ah_reduce_input input = {pointer(task, 1), (enum ah_dtype)op->arg[1].dtype,
                                    op->kind == AH_OP_SUM ? AH_REDUCE_SUM : AH_REDUCE_SUM_SQUARES,
                                    op->u.sum.count};
    double *total = pointer(task, 0);
    (void)err;
    *total = ah_reduce_run(task->device->isa, task->lane->pool, &input, op->u.sum.accumulate ? *total : 0.0);
    return AH_OK;
}

static int run_clip(struct ah_cpu_task *task, struct ah_error *err)
{
    return ah_clip_run(pointer(task, 0), pointer(task, 1), &task->op.u.clip, err);
}

static int run_matmul(struct ah_cpu_task *task, struct ah_error *err)
{
    struct ah_matmul_args args = {pointer(task, 0), pointer(task, 1), pointer(task, 2),
                                  optional_pointer(task, 3)};
    return ah_matmul_run(task->product, &args, task->lane->pool, err);
}

static int run_call(struct ah_cpu_task *task, struct ah_error *err)
{
    return task->op.u.call.run(task->op.u.call.context, err);
}

static dispatch_fn *const dispatch_of_kind[AH_OP_KINDS] = {
    [AH_OP_COPY] = run_copy,        [AH_OP_FILL] = run_split,       [AH_OP_CAST] = run_split,
    [AH_OP_ADD] = run_split,        [AH_OP_ACCUMULATE] = run_split, [AH_OP_MATMUL] = run_matmul,
    [AH_OP_COLUMN_SUM] = run_split, [AH_OP_SUM] = run_sum,          [AH_OP_SUM_SQUARES] = run_sum,
    [AH_OP_CLIP] = run_clip,        [AH_OP_ADAMW] = run_split,      [AH_OP_CALL] = run_call,
};

bool ah_cpu_supports(enum ah_op_kind kind)
{
    return dispatch_of_kind[kind] != NULL;
}

struct ah_matmul_shape ah_cpu_matmul_shape(const struct ah_op *op)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    return (struct ah_matmul_shape){
        .form = (enum ah_matmul_form)matmul->form,
        .in = (enum ah_dtype)op->arg[1].dtype,
        .out = (enum ah_dtype)op->arg[0].dtype,
        .has_bias = matmul->epilogue == AH_EPILOGUE_BIAS,
        .bias = (enum ah_dtype)op->arg[3].dtype,
        .accumulate = matmul->accumulate,
        .m = matmul->m,
        .n = matmul->n,
        .k = matmul->k,
    };
}

/* What an op of a slowed host lane costs; false where it costs nothing. */
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

int ah_cpu_dispatch(struct ah_cpu_task *task, struct ah_error *err)
{
    struct ah_throttle *throttle = &task->lane->throttle;
    dispatch_fn *run = dispatch_of_kind[task->op.kind];
    double work, work_per_s;
    if (!host_charge(task, &work, &work_per_s))
        return run(task, err);
    ah_throttle_begin(throttle, ah_threads_now_ns());
    int rc = run(task, err);
    ah_threads_sleep_until_ns(ah_throttle_pay(throttle, work, work_per_s));
    return rc;
}
