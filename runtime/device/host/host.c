/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an op on the host, with a table of kernels by kind (host.h).
 */
#include "runtime/device/host/host.h"

#include "runtime/device/host/adamw.h"
#include "runtime/device/host/clip.h"
#include "runtime/device/host/convert.h"
#include "runtime/device/host/reduce.h"

/* Sizes of the pieces into which work is split: in elements, in bytes (copies), in columns. */
enum { PIECE_ELEMENTS = 1 << 16, PIECE_BYTES = 1 << 21, PIECE_COLUMNS = 128 };

_Static_assert((int)AH_OP_SUM_LEAF == (int)AH_REDUCE_LEAF, "tiles begin at leaves");

struct task {
    const struct ah_host *host;
    const struct ah_op *op;
};

typedef int run_fn(const struct task *task, struct ah_error *err);

void *ah_host_operand(const struct ah_host *host, const struct ah_op *op, size_t arg)
{
    struct ah_ref ref = op->arg[arg];
    return ref.arena == AH_ARENA_NONE ? NULL : host->arenas[ref.arena] + ref.offset_bytes;
}

static void *pointer(const struct task *task, size_t arg)
{
    return ah_host_operand(task->host, task->op, arg);
}

static struct ah_convert_out out(const struct task *task, size_t arg)
{
    return (struct ah_convert_out){pointer(task, arg), (enum ah_dtype)task->op->arg[arg].dtype};
}

static struct ah_convert_in in(const struct task *task, size_t arg)
{
    return (struct ah_convert_in){pointer(task, arg), (enum ah_dtype)task->op->arg[arg].dtype};
}

typedef void work_fn(const struct task *task, uint64_t begin, uint64_t end);
typedef void row_fn(const struct task *task, uint64_t row, uint64_t begin, uint64_t end);

/* A split of [0, count) into pieces; `work` does one piece. */
struct split {
    const struct task *task;
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

static void work_copy(const struct task *task, uint64_t begin, uint64_t end)
{
    unsigned char *dst = pointer(task, 0);
    const unsigned char *src = pointer(task, 1);
    ah_convert_copy(task->host->isa, dst + begin, src + begin, end - begin);
}

/* Returns the number of bytes from the first row to row `row` of an elementwise op's operand. */
static uint64_t row_at(const struct task *task, size_t arg, uint64_t row)
{
    const struct ah_ref *ref = &task->op->arg[arg];
    uint64_t stride = ref->row_stride ? ref->row_stride : task->op->u.elements.count;
    return row * stride * ah_dtype_bytes((enum ah_dtype)ref->dtype);
}

static struct ah_convert_out out_row(const struct task *task, size_t arg, uint64_t row)
{
    struct ah_convert_out first = out(task, arg);
    return (struct ah_convert_out){(unsigned char *)first.data + row_at(task, arg, row), first.dtype};
}

static struct ah_convert_in in_row(const struct task *task, size_t arg, uint64_t row)
{
    struct ah_convert_in first = in(task, arg);
    return (struct ah_convert_in){(const unsigned char *)first.data + row_at(task, arg, row), first.dtype};
}

static void row_fill(const struct task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_fill(out_row(task, 0, row), task->op->u.elements.value, begin, end);
}

static void row_cast(const struct task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_cast(task->host->isa, out_row(task, 0, row), in_row(task, 1, row), begin, end);
}

static void row_add(const struct task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_add(task->host->isa, out_row(task, 0, row), in_row(task, 1, row), in_row(task, 2, row), begin,
                   end);
}

static void row_accumulate(const struct task *task, uint64_t row, uint64_t begin, uint64_t end)
{
    ah_convert_add(task->host->isa, out_row(task, 0, row), in_row(task, 0, row), in_row(task, 1, row), begin,
                   end);
}

static row_fn *const row_of_kind[AH_OP_KINDS] = {
    [AH_OP_FILL] = row_fill,
    [AH_OP_CAST] = row_cast,
    [AH_OP_ADD] = row_add,
    [AH_OP_ACCUMULATE] = row_accumulate,
};

/* Computes elements [begin, end), counted through all rows in order. */
static void work_elements(const struct task *task, uint64_t begin, uint64_t end)
{
    const uint64_t count = task->op->u.elements.count;
    while (begin < end) {
        uint64_t row = begin / count, first = begin - row * count;
        uint64_t n = end - begin < count - first ? end - begin : count - first;
        row_of_kind[task->op->kind](task, row, first, first + n);
        begin += n;
    }
}

static void work_column_sum(const struct task *task, uint64_t begin, uint64_t end)
{
    const struct ah_op_rows *rows = &task->op->u.rows;
    uint64_t stride = task->op->arg[1].row_stride ? task->op->arg[1].row_stride : rows->width;
    struct ah_convert_matrix matrix = {in(task, 1), rows->rows, stride};
    ah_convert_column_sum(task->host->isa, out(task, 0), &matrix, begin, end);
}

static void work_adamw(const struct task *task, uint64_t begin, uint64_t end)
{
    const struct ah_op *op = task->op;
    struct ah_adamw_arrays arrays = {
        .master = pointer(task, 0),
        .m = pointer(task, 1),
        .v = pointer(task, 2),
        .gradient = pointer(task, 3),
        .weight = pointer(task, 4),
        .state_dtype = (enum ah_dtype)op->arg[1].dtype,
        .gradient_dtype = (enum ah_dtype)op->arg[3].dtype,
        .weight_dtype = (enum ah_dtype)op->arg[4].dtype,
        .decay = op->u.adamw.decay,
        .block = op->u.adamw.block,
        .first_element = op->u.adamw.first_element,
    };
    ah_adamw_run(task->host->isa, &arrays, pointer(task, 5), begin, end);
}

static uint64_t count_bytes(const struct ah_op *op)
{
    return op->u.copy.bytes;
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

/* Kinds whose work is only split: `count` returns the amount of work; `piece` is the size of a piece. */
static const struct {
    work_fn *work;
    uint64_t (*count)(const struct ah_op *op);
    uint64_t piece;
} splits[AH_OP_KINDS] = {
    [AH_OP_COPY] = {work_copy, count_bytes, PIECE_BYTES},
    [AH_OP_FILL] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_CAST] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_ADD] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_ACCUMULATE] = {work_elements, count_elements, PIECE_ELEMENTS},
    [AH_OP_COLUMN_SUM] = {work_column_sum, count_columns, PIECE_COLUMNS},
    [AH_OP_ADAMW] = {work_adamw, count_params, PIECE_ELEMENTS},
};

static int run_split(const struct task *task, struct ah_error *err)
{
    enum ah_op_kind kind = task->op->kind;
    struct split split = {task, splits[kind].work, splits[kind].count(task->op), splits[kind].piece};
    uint64_t pieces = split.count / split.piece + (split.count % split.piece != 0);
    (void)err;
    ah_pool_run(task->host->pool, split_piece, &split, pieces);
    return AH_OK;
}

static int run_sum(const struct task *task, struct ah_error *err)
{
    const struct ah_op *op = task->op;
    struct ah_reduce_input input = {pointer(task, 1), (enum ah_dtype)op->arg[1].dtype,
                                    op->kind == AH_OP_SUM ? AH_REDUCE_SUM : AH_REDUCE_SUM_SQUARES,
                                    op->u.sum.count};
    double *total = pointer(task, 0);
    (void)err;
    *total = ah_reduce_run(task->host->isa, task->host->pool, &input, op->u.sum.accumulate ? *total : 0.0);
    return AH_OK;
}

static int run_clip(const struct task *task, struct ah_error *err)
{
    return ah_clip_run(pointer(task, 0), pointer(task, 1), &task->op->u.clip, err);
}

static int run_call(const struct task *task, struct ah_error *err)
{
    return task->op->u.call.run(task->op->u.call.context, err);
}

static int run_message(const struct task *task, struct ah_error *err)
{
    const struct ah_op_message *message = &task->op->u.message;
    const struct ah_op_moved moved = {message->channel, message->more, pointer(task, 0), message->bytes,
                                      task->host->arenas[AH_ARENA_DEVICE]};
    return message->move(message->context, &moved, err);
}

static run_fn *const run_of_kind[AH_OP_KINDS] = {
    [AH_OP_COPY] = run_split,      [AH_OP_FILL] = run_split,       [AH_OP_CAST] = run_split,
    [AH_OP_ADD] = run_split,       [AH_OP_ACCUMULATE] = run_split, [AH_OP_COLUMN_SUM] = run_split,
    [AH_OP_SUM] = run_sum,         [AH_OP_SUM_SQUARES] = run_sum,  [AH_OP_CLIP] = run_clip,
    [AH_OP_ADAMW] = run_split,     [AH_OP_CALL] = run_call,        [AH_OP_SEND] = run_message,
    [AH_OP_RECEIVE] = run_message,
};

bool ah_host_does(enum ah_op_kind kind)
{
    return run_of_kind[kind] != NULL;
}

int ah_host_run(const struct ah_host *host, const struct ah_op *op, struct ah_error *err)
{
    const struct task task = {host, op};
    return run_of_kind[op->kind](&task, err);
}
