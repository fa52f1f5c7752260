/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kinds that op_table.c defines and op.c evaluates. For each operand of each kind, the table has the role,
 * the type of its elements, and the extent as a product of up to three named sizes. A function for each kind takes
 * these sizes from the op. Only these two files use the short names.
 */
#ifndef AH_RUNTIME_DEVICE_OP_INTERNAL_H
#define AH_RUNTIME_DEVICE_OP_INTERNAL_H

#include "runtime/device/op.h"

#define BIT(i) (1u << (i))

/* The sizes of which extents are products. ONE is 0, so a rule lists only the sizes that it needs. */
enum size_name {
    ONE,
    TWO,
    COUNT, /* elements of a row, bytes of a copy or sums of a clip */
    M,     /* matmul */
    N,
    A_ROWS, /* the shapes of a and b as stored in memory */
    A_WIDTH,
    B_ROWS,
    B_WIDTH,
    ROWS,
    WIDTH,
    HEADS,    /* per row */
    STATS,    /* 1; 2 for a layer norm */
    PARTIALS, /* number of groups of AH_OP_NORM_GROUP vectors (heads of rows) */
    VOCABULARY,
    POSITIONS,
    KV_HEADS,
    KEYS,
    SIZES
};

enum element {
    FREE,          /* the ref's dtype */
    LIKE_PREVIOUS, /* the ref's dtype, equal to that of the previous operand */
    FP32,          /* the ref's dtype, which must be fp32 */
    BYTE,
    WORD, /* u32 */
    DOUBLE,
    SCALARS, /* struct ah_adamw_scalars */
    ELEMENTS
};

enum presence { REQUIRED, OPTIONAL, BY_OP /* struct op_sizes says which */ };
enum use { UNUSED, NEEDED, USABLE };
enum spacing { DENSE, MATRIX /* dims[0] is the number of rows, which may have a row stride */ };

struct operand_rule {
    const char *name; /* NULL ends a kind's list */
    enum ah_role role;
    enum element element;
    enum spacing spacing;
    enum size_name dims[3];
    enum presence presence;
    uint32_t may_equal; /* bit i: the operand may share the memory of input i */
};

/* What the rules need to know of one op. */
struct op_sizes {
    uint64_t of[SIZES];
    enum use use[AH_OP_ARGS]; /* for operands that are BY_OP */
    bool accumulates;         /* operand 0 is also read */
    const char *wrong;        /* what is wrong with the op; NULL: nothing */
};

/* Returns the AH_OP_ARGS rules of a known kind's operands. */
const struct operand_rule *ah_op_table_rules(enum ah_op_kind kind);

/* Returns the sizes of an op of a known kind. */
struct op_sizes ah_op_table_sizes(const struct ah_op *op);

/* True if the operand is given. */
static inline bool ah_op_table_has(const struct ah_op *op, size_t operand)
{
    return op->arg[operand].arena != AH_ARENA_NONE;
}

#endif
