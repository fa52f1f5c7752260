/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the memory that an op covers, by evaluating the table of kinds (op_table.c).
 *
 * 1. No product or end of an extent wraps: every multiplication and addition is checked.
 * 2. After ah_op_check() returned AH_OK, every byte that a kernel may touch through operand i is in [offset, offset +
 *    bytes) of arg[i]'s arena, in one of its rows.
 */
#include "runtime/device/op_internal.h"

#include <stdio.h>
#include <string.h>

static const char *const op_names[] = {
#define OP_NAME(value, name) [value] = #name,
    AH_OPS(OP_NAME)
#undef OP_NAME
};

const char *ah_op_name(enum ah_op_kind kind)
{
    return (unsigned)kind < AH_OP_KINDS ? op_names[kind] : "?";
}

static uint64_t element_bytes(enum element element, enum ah_dtype dtype)
{
    static const uint64_t fixed[ELEMENTS] = {
        [FP32] = 4, [BYTE] = 1, [WORD] = 4, [DOUBLE] = 8, [SCALARS] = sizeof(struct ah_adamw_scalars)};
    return fixed[element] ? fixed[element] : ah_dtype_bytes(dtype);
}

static uint64_t element_align(enum element element, enum ah_dtype dtype)
{
    return element == SCALARS ? _Alignof(struct ah_adamw_scalars) : element_bytes(element, dtype);
}

/* True if the element may have `dtype`; `previous` is the dtype of the previous operand. */
static bool element_takes(enum element element, uint32_t dtype, uint32_t previous)
{
    if (dtype != AH_FP32 && dtype != AH_BF16)
        return false;
    if (element == FP32)
        return dtype == AH_FP32;
    return element != LIKE_PREVIOUS || dtype == previous;
}

static int operand_wrong(struct ah_error *err, const struct ah_op *op, const char *operand, const char *what)
{
    return ah_error_set(err, AH_E_USAGE, "op '%s': operand '%s' %s", ah_op_name(op->kind), operand, what);
}

/* Returns the product of an operand's sizes from dims[first] on; 0 if one of them is 0 or the product wraps. */
static uint64_t operand_elements(const struct operand_rule *rule, const struct op_sizes *sizes, size_t first)
{
    uint64_t elements = 1;
    for (size_t i = first; i < sizeof rule->dims / sizeof rule->dims[0]; i++)
        if (__builtin_mul_overflow(elements, sizes->of[rule->dims[i]], &elements))
            return 0;
    return elements;
}

/* Sets the extents of a present operand. Returns false if they wrap or are empty. */
static bool operand_extent(const struct operand_rule *rule, const struct op_sizes *sizes, uint64_t bytes_each,
                           uint64_t row_stride, struct ah_operand *operand)
{
    bool matrix = rule->spacing == MATRIX;
    uint64_t row = operand_elements(rule, sizes, matrix ? 1 : 0);
    uint64_t before_last;
    operand->rows = matrix ? sizes->of[rule->dims[0]] : 1;
    return row && operand->rows && !__builtin_mul_overflow(row, bytes_each, &operand->row_bytes) &&
           !__builtin_mul_overflow(row_stride ? row_stride : row, bytes_each, &operand->stride_bytes) &&
           !__builtin_mul_overflow(operand->stride_bytes, operand->rows - 1, &before_last) &&
           !__builtin_add_overflow(before_last, operand->row_bytes, &operand->bytes);
}

/* Returns the bytes touched in one pass over an operand with known extent. n rows read at most n rows of a table. */
static uint64_t operand_moved_bytes(const struct operand_rule *rule, const struct op_sizes *sizes,
                                    const struct ah_operand *operand)
{
    bool table = rule->dims[0] == VOCABULARY || rule->dims[0] == POSITIONS;
    uint64_t table_rows = sizes->of[rule->dims[0]];
    if (table && sizes->of[ROWS] < table_rows)
        return operand->bytes / table_rows * sizes->of[ROWS];
    return operand->row_bytes * operand->rows;
}

/* Returns what is wrong with an operand's ref; NULL if nothing is wrong. */
static const char *ref_wrong(const struct ah_op *op, const struct op_sizes *sizes, size_t i)
{
    const struct operand_rule *rule = &ah_op_table_rules(op->kind)[i];
    const struct ah_ref *ref = &op->arg[i];
    bool present = ah_op_table_has(op, i);
    if (ref->arena >= AH_ARENA_KINDS)
        return "is in no known arena";
    if (!present && (rule->presence == REQUIRED || (rule->presence == BY_OP && sizes->use[i] == NEEDED)))
        return "is missing";
    if (present && rule->presence == BY_OP && sizes->use[i] == UNUSED)
        return "is given, but this form of the op does not use it";
    if (present && !element_takes(rule->element, ref->dtype, i ? op->arg[i - 1].dtype : ref->dtype))
        return "has a dtype that the op does not support";
    if (present && ref->row_stride && rule->spacing != MATRIX)
        return "has a row stride but must be dense; set row_stride to 0";
    return NULL;
}

static int operand_fill(const struct ah_op *op, const struct op_sizes *sizes, size_t i,
                        struct ah_operand *operand, struct ah_error *err)
{
    const struct operand_rule *rule = &ah_op_table_rules(op->kind)[i];
    const struct ah_ref *ref = &op->arg[i];
    const char *wrong = ref_wrong(op, sizes, i);
    operand->name = rule->name;
    if (wrong)
        return operand_wrong(err, op, rule->name, wrong);
    if (!ah_op_table_has(op, i))
        return AH_OK;
    uint64_t bytes_each = element_bytes(rule->element, (enum ah_dtype)ref->dtype);
    operand->role = rule->role;
    operand->may_equal = rule->may_equal;
    operand->align_bytes = element_align(rule->element, (enum ah_dtype)ref->dtype);
    if (!operand_extent(rule, sizes, bytes_each, ref->row_stride, operand))
        return operand_wrong(err, op, rule->name, "is empty or larger than any memory");
    if (operand->stride_bytes < operand->row_bytes)
        return operand_wrong(err, op, rule->name, "has a row stride smaller than the width of its rows");
    operand->moved_bytes = operand_moved_bytes(rule, sizes, operand);
    return AH_OK;
}

int ah_op_operands(const struct ah_op *op, struct ah_operand ret_operands[AH_OP_ARGS], struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS] = {0};
    if ((unsigned)op->kind >= AH_OP_KINDS)
        return ah_error_set(err, AH_E_USAGE, "op of unknown kind %u", (unsigned)op->kind);
    const struct op_sizes sizes = ah_op_table_sizes(op);
    if (sizes.wrong)
        return ah_error_set(err, AH_E_USAGE, "op '%s': %s", ah_op_name(op->kind), sizes.wrong);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        if (!ah_op_table_rules(op->kind)[i].name) {
            if (ah_op_table_has(op, i))
                return ah_error_set(err, AH_E_USAGE, "op '%s' has no operand %zu", ah_op_name(op->kind), i);
            continue;
        }
        int rc = operand_fill(op, &sizes, i, &operands[i], err);
        if (rc)
            return rc;
    }
    if (sizes.accumulates)
        operands[0].role = AH_ROLE_INOUT;
    memcpy(ret_operands, operands, sizeof operands);
    return AH_OK;
}

uint64_t ah_op_moved_bytes(const struct ah_op *op)
{
    struct ah_operand operands[AH_OP_ARGS];
    uint64_t bytes = 0;
    if (ah_op_operands(op, operands, NULL))
        return 0;
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        bytes += operands[i].moved_bytes * (operands[i].role == AH_ROLE_INOUT ? 2 : 1);
    return bytes;
}

/* True if a row of `first`, which begins at 0, and a row of `second`, which begins at `distance`, share a byte. Rows of
 * both are `stride` apart and at most `stride` wide. `second` begins `column` bytes after the place of row `row` of
 * `first`, perhaps beyond the last row. So row i of `second` can only touch rows row + i and row + i + 1 of `first`. */
static bool rows_overlap(const struct ah_operand *first, const struct ah_operand *second, uint64_t distance,
                         uint64_t stride)
{
    uint64_t row = distance / stride, column = distance % stride;
    bool same = row < first->rows && column < first->row_bytes;
    bool next = row + 1 < first->rows && second->row_bytes > stride - column;
    return same || next;
}

/* True if two operands overlap, `second` beginning `distance` bytes after `first`. A single row may be taken to have
 * any stride not less than its width. If strides differ, the gaps between rows count as part of the operands. */
static bool extents_overlap(const struct ah_operand *first, const struct ah_operand *second,
                            uint64_t distance)
{
    const struct ah_operand *strided = first->rows > 1 ? first : second;
    uint64_t stride = strided->stride_bytes;
    bool first_fits = first->rows == 1 ? first->row_bytes <= stride : first->stride_bytes == stride;
    bool second_fits = second->rows == 1 ? second->row_bytes <= stride : second->stride_bytes == stride;
    if (first_fits && second_fits)
        return rows_overlap(first, second, distance, stride);
    return distance < first->bytes;
}

static bool same_rows(const struct ah_operand *a, const struct ah_operand *b)
{
    return a->rows == b->rows && a->row_bytes == b->row_bytes && a->stride_bytes == b->stride_bytes;
}

/* True if output i overlaps operand j in a way that is not allowed. */
static bool operands_overlap(const struct ah_op *op, const struct ah_operand *operands, size_t i, size_t j)
{
    if (op->arg[i].arena != op->arg[j].arena)
        return false;
    size_t first = op->arg[i].offset_bytes <= op->arg[j].offset_bytes ? i : j;
    size_t second = first == i ? j : i;
    uint64_t distance = op->arg[second].offset_bytes - op->arg[first].offset_bytes;
    bool same = distance == 0 && op->arg[i].dtype == op->arg[j].dtype;
    if (same && (operands[i].may_equal & BIT(j)) && same_rows(&operands[i], &operands[j]))
        return false;
    return extents_overlap(&operands[first], &operands[second], distance);
}

static bool operand_is_written(const struct ah_operand *operand)
{
    return operand->role == AH_ROLE_OUT || operand->role == AH_ROLE_INOUT;
}

static int check_overlaps(const struct ah_op *op, const struct ah_operand *operands, struct ah_error *err)
{
    for (size_t i = 0; i < AH_OP_ARGS; i++)
        for (size_t j = 0; j < AH_OP_ARGS; j++)
            if (i != j && operand_is_written(&operands[i]) && operands[j].role != AH_ROLE_NONE &&
                operands_overlap(op, operands, i, j))
                return ah_error_set(err, AH_E_USAGE, "op '%s': output '%s' overlaps '%s'",
                                    ah_op_name(op->kind), operands[i].name, operands[j].name);
    return AH_OK;
}

static int check_place(const struct ah_op *op, const struct ah_ref *ref, const struct ah_operand *operand,
                       uint64_t arena_bytes, struct ah_error *err)
{
    uint64_t end;
    if (ref->offset_bytes % operand->align_bytes)
        return ah_error_set(err, AH_E_USAGE,
                            "op '%s': operand '%s' at offset %llu is not aligned to %llu bytes",
                            ah_op_name(op->kind), operand->name, (unsigned long long)ref->offset_bytes,
                            (unsigned long long)operand->align_bytes);
    if (__builtin_add_overflow(ref->offset_bytes, operand->bytes, &end) || end > arena_bytes)
        return ah_error_set(
            err, AH_E_CAPACITY,
            "op '%s': operand '%s', %llu bytes at offset %llu, does not fit its arena of %llu bytes",
            ah_op_name(op->kind), operand->name, (unsigned long long)operand->bytes,
            (unsigned long long)ref->offset_bytes, (unsigned long long)arena_bytes);
    return AH_OK;
}

int ah_op_check(const struct ah_op *op, const uint64_t arena_bytes[AH_ARENA_KINDS], struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    int rc = ah_op_operands(op, operands, err);
    for (size_t i = 0; !rc && i < AH_OP_ARGS; i++)
        if (operands[i].role != AH_ROLE_NONE)
            rc = check_place(op, &op->arg[i], &operands[i], arena_bytes[op->arg[i].arena], err);
    return rc ? rc : check_overlaps(op, operands, err);
}
