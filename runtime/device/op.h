/* SPDX-License-Identifier: Apache-2.0
 *
 * Op: one primitive piece of work, as data.
 *
 * A transformer block is a straight-line program: an array of ops. An op names its kind, its operands (offsets in
 * arenas, never pointers) and its sizes. Ops are plain values: they are copied into a lane's queue, kept in programs,
 * printed, checked. Every device runs the same ops. Only ah_op_check() knows how many bytes each operand covers, and no
 * device gets an op that would touch memory outside its arenas.
 *
 * Matrices are row-major. `rows` are tokens. Sizes are elements unless the name says bytes, and at least 1. Operands
 * need the alignment of their element; 64 bytes are faster. An output overlaps no other operand, but some in
 * the list below may share the memory of an input of equal dtype and row stride. Rules of arithmetic: docs/numerics.md.
 *
 * ROW STRIDE. An operand marked * below is a matrix whose rows may be `row_stride` elements apart, as part of a wider
 * one (q, k or v of packed projections, gate or up of a packed MLP, a tile of the vocabulary's logits). 0: dense. All
 * other operands are dense. Two parts of one wide matrix do not overlap, although each has rows in the other's gaps.
 *
 * Operand roles, per kind, in the order of arg[] ("?": may be absent, arena AH_ARENA_NONE):
 *
 *   copy                dst, src                         bytes of any type
 *   fill                dst*
 *   cast                dst*, src*                       round to nearest even
 *   add                 dst*, a*, b*                     dst may be a or b
 *   accumulate          dst* (fp32), src*                dst += src, in fp32
 *   matmul              c*, a*, b*, bias?, aux*?         c = alpha (a op b) (+ bias) (+ c when accumulating);
 *                                                        gelu: c = gelu_tanh(x), x = alpha (a op b) + bias; x
 *                                                        goes to aux, for backward, where aux is given
 *   column_sum          dst, src*                        sums over rows: a bias gradient
 *   norm                y*, x*, gain, bias?, stats       stats: fp32 means (layer only), then 1/deviations, of
 *                                                        each head of each row; bias: layer only
 *   norm_backward       dx*?, dgain?, dbias?, dy*, x*, gain, stats, scratch?
 *                                                        at least one output; scratch with dgain or dbias, else
 *                                                        absent
 *   rope                x*, table, positions?            in place; table: fp32 (cos, sin) pairs of each position;
 *                                                        pair p turns elements p and p + rotated / 2 of a head;
 *                                                        `inverse` for backward
 *   attention           out*, lse, q*, k*, v*, docs?    lse: fp32 (batch, heads, seq); docs: u32 of each token,
 *                                                        where its document starts; absent: at 0. Keys may
 *                                                        go further back than queries (`past`)
 *   attention_backward  dq*, dk*, dv*, dout*, q*, k*, v*, out*, lse, docs?, scratch
 *   activation          y*, x*, up*?                     gelu(x); gated: silu(x) * up or gelu(x) * up
 *   activation_backward dx*, dup*?, dy*, x*, up*?        dx may be dy, and neither x nor up
 *   embed               y, table, positions_table?, tokens, positions?
 *   embed_backward      dtable?, dpositions_table?, dy, tokens?, positions?, scratch?
 *                                                        adds to the tables, at least one; tokens and scratch
 *                                                        with dtable, else absent
 *   gather              dst, table, tokens               rows of a host table
 *   cross_entropy       loss, logits*, targets, mask?, scale, gradient*?
 *                                                        loss: fp32 of each row, 0 where masked; logits become
 *                                                        their gradient times scale: one fp32, 1 / unmasked tokens
 *                                                        of the batch, in an arena so that orders can be replayed
 *                                                        with another mask. With fp32 logits the gradient may go
 *                                                        to separate bf16 memory, with the same bits as a cast of
 *                                                        the fp32 gradient has; logits are then left undefined
 *   sum                 dst (one double), src            the canonical reduction of a vector or a tile of it
 *   sum_squares         dst (one double), src            the canonical reduction of squares
 *   clip                scalars, sums                    grad_scale from the norm of all blocks
 *   adamw               master, m, v, gradient, weight?, scalars     master fp32; m and v of one dtype
 *   call                -                                a function of the runtime
 *   send                src?                             bytes, passed to a function of the runtime; absent: a word
 *   receive             dst?                             bytes, written by a function of the runtime; absent: a word
 *
 * POSITIONS, u32 of each token, select the token's row in a table; absent: row r has position r % seq.
 *
 * INDICES. Tokens and targets are below `vocabulary`, and positions below the rows of their table. docs[r] is where r's
 * document starts, counted within its sequence, and at most r's own index. Ops do not check this, because the data's
 * reader checks every index before it reaches an arena. An op's extent in a table is the whole table.
 *
 * Outputs marked "?" are absent if a frozen tensor needs no gradient. attention_backward always writes all three,
 * because they come from one pass over the same scores.
 */
#ifndef AH_RUNTIME_DEVICE_OP_H
#define AH_RUNTIME_DEVICE_OP_H

#include "base/error.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ah_arena_kind {
    AH_ARENA_NONE,     /* the operand is absent */
    AH_ARENA_DEVICE,   /* the planned device arena */
    AH_ARENA_PINNED,   /* host, locked: tiles being copied, weights kept on the host */
    AH_ARENA_PAGEABLE, /* host: masters and moments of host Adam */
    AH_ARENA_KINDS
};

struct ah_ref {
    uint32_t arena; /* enum ah_arena_kind */
    uint32_t dtype; /* enum ah_dtype, if the operand can have several types */
    uint64_t offset_bytes;
    uint64_t row_stride; /* elements between the starts of rows; 0: dense */
};

/* clang-format off */
#define AH_OPS(X) \
    X(AH_OP_COPY, copy) X(AH_OP_FILL, fill) X(AH_OP_CAST, cast) X(AH_OP_ADD, add) \
    X(AH_OP_ACCUMULATE, accumulate) X(AH_OP_MATMUL, matmul) X(AH_OP_COLUMN_SUM, column_sum) \
    X(AH_OP_NORM, norm) X(AH_OP_NORM_BACKWARD, norm_backward) X(AH_OP_ROPE, rope) \
    X(AH_OP_ATTENTION, attention) X(AH_OP_ATTENTION_BACKWARD, attention_backward) \
    X(AH_OP_ACTIVATION, activation) X(AH_OP_ACTIVATION_BACKWARD, activation_backward) \
    X(AH_OP_EMBED, embed) X(AH_OP_EMBED_BACKWARD, embed_backward) X(AH_OP_GATHER, gather) \
    X(AH_OP_CROSS_ENTROPY, cross_entropy) X(AH_OP_SUM, sum) X(AH_OP_SUM_SQUARES, sum_squares) X(AH_OP_CLIP, clip) \
    X(AH_OP_ADAMW, adamw) X(AH_OP_CALL, call) \
    X(AH_OP_SEND, send) X(AH_OP_RECEIVE, receive)
/* clang-format on */

enum ah_op_kind {
#define AH_OP_VALUE(value, name) value,
    AH_OPS(AH_OP_VALUE)
#undef AH_OP_VALUE
        AH_OP_KINDS
};

enum { AH_OP_ARGS = 11 };

/* norm_backward adds up the gradients of this many vectors (heads of rows) in one row of its scratch. The scratch is
 * fp32, (ceil(rows * heads / 64), width), twice that for layer norms. Scratch of other ops: attention_backward fp32
 * (batch, heads, seq); embed_backward u32 (2, rows). */
enum { AH_OP_NORM_GROUP = 64 };

enum ah_epilogue { AH_EPILOGUE_NONE, AH_EPILOGUE_BIAS, AH_EPILOGUE_BIAS_GELU };
enum ah_norm_kind { AH_NORM_RMS, AH_NORM_LAYER };
enum ah_activation_kind {
    AH_ACTIVATION_GELU_TANH,
    AH_ACTIVATION_GELU,
    AH_ACTIVATION_SILU_GATED,
    AH_ACTIVATION_GELU_TANH_GATED
};

/* True if the activation of `kind` is multiplied by a second operand, `up`. */
static inline bool ah_op_is_gated(uint32_t kind)
{
    return kind == AH_ACTIVATION_SILU_GATED || kind == AH_ACTIVATION_GELU_TANH_GATED;
}

struct ah_op_bytes {
    uint64_t bytes;
};

struct ah_op_elements {
    uint64_t count; /* elements of a row */
    float value;    /* fill only */
    uint64_t rows;  /* 0 means 1 */
};

/* nn: a (m,k) b (k,n); nt: a (m,k) b (n,k); tn: a (k,m) b (k,n); c (m,n). Products accumulate in fp32. c, bias and aux
 * are fp32 if a and b are, otherwise fp32 or bf16. */
struct ah_op_matmul {
    uint32_t form; /* enum ah_matmul_form */
    uint32_t epilogue;
    uint64_t m, n, k;
    bool accumulate; /* c += product, added in fp32, then rounded to c's type once */
    float alpha;     /* scales the product in fp32, before bias and c are added; 0 means 1 */
};

struct ah_op_rows {
    uint64_t rows;
    uint64_t width;
    uint32_t kind; /* enum ah_activation_kind; 0 for column_sum */
};

/* A row consists of `heads` vectors of `width` elements, each normalised with the same gain, as q/k norms need. */
struct ah_op_norm {
    uint64_t rows;
    uint64_t width; /* elements of a vector, and of gain and bias */
    uint32_t heads; /* 0 means 1 */
    uint32_t kind;  /* enum ah_norm_kind */
    float epsilon;
    float gain_offset; /* added to each gain before it is used */
};

/* Returns the number to add to each gain. Without an offset it is -0, because adding +0 would change a gain of -0. */
static inline float ah_op_gain_offset(const struct ah_op_norm *norm)
{
    return norm->gain_offset != 0 ? norm->gain_offset : -0.0f;
}

struct ah_op_attention {
    uint32_t batch;
    uint32_t seq;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t window; /* 0: none */
    float scale;
    float soft_cap; /* a scaled score s becomes cap * tanh(s / cap), before masks; 0: none */
    /* Keys before each sequence's first query: q, out and lse have `seq` rows of a sequence, k and v `past` + `seq`.
     * Query i has position `past` + i. Forward only, and without docs. Not part of the shape that is prepared. */
    uint32_t past;
};

struct ah_op_rope {
    uint64_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t rotated;    /* elements of a head that turn, its first ones; 0: all */
    uint32_t table_rows; /* positions in the table of (cos, sin) */
    uint32_t seq;        /* tokens of a sequence, <= table_rows; 0 if the op has positions */
    bool inverse;
};

struct ah_op_embed {
    uint64_t rows;
    uint64_t width;
    uint64_t vocabulary;
    uint64_t positions; /* rows of the position table; 0: none */
    uint64_t seq;       /* tokens of a sequence; 0 without a position table, or with a positions operand */
    uint64_t padding;   /* embed_backward: 1 + the token whose row of `dtable` gets nothing; 0: none */
    float scale;        /* multiplies rows of the table, before positions are added; 0 means 1 */
};

struct ah_op_cross_entropy {
    uint64_t rows;
    uint64_t vocabulary;
    float soft_cap; /* a logit x becomes cap * tanh(x / cap) first, and gradients are those of x; 0: none */
};

/* A vector may be summed in tiles that begin at multiples of AH_OP_SUM_LEAF and are submitted in order. The bits are
 * those of one whole sum: the first tile sets dst, the others add to it. */
enum { AH_OP_SUM_LEAF = 4096 };

struct ah_op_sum {
    uint64_t count;
    uint64_t first_element; /* index of src's first element in its vector: a multiple of AH_OP_SUM_LEAF */
    bool accumulate;        /* adds to dst; must be true unless first_element is 0 */
};

struct ah_op_clip {
    uint64_t sums; /* number of sums: doubles, in block order */
    double limit;  /* the largest norm; 0: no clipping, the norm is only recorded */
};

/* An element's index and its block's number, both below these, select bits of stochastic rounding (base/philox.h). */
#define AH_OP_ADAMW_END (UINT64_C(1) << 42)
enum { AH_OP_ADAMW_BLOCKS = 1 << 16 };

struct ah_op_adamw {
    uint64_t count;
    uint64_t first_element; /* index in the block's flat vector, whose end is at most AH_OP_ADAMW_END */
    uint32_t block;         /* below AH_OP_ADAMW_BLOCKS */
    bool decay;
};

struct ah_op_call {
    int (*run)(void *context, struct ah_error *err);
    void *context; /* borrowed until the op is done */
};

struct ah_op_moved {
    uint32_t channel;
    bool more;
    void *data;
    uint64_t bytes;
    void *device_arena; /* its address for messages */
};

/* A message to or from another rank. The device knows the operand's address; `move` knows the other rank. */
struct ah_op_message {
    int (*move)(void *context, const struct ah_op_moved *moved, struct ah_error *err);
    void *context; /* borrowed until the op is done */
    uint64_t bytes;
    uint32_t channel; /* number of the channel, as `move` knows it */
    bool more;        /* `move` keeps the message, and sends it together with the lane's next one */
};

/* AdamW's numbers for one step, from ah_adamw_scalars_init() (adamw_scalars.h). They are in an arena so that ops can be
 * queued before the norm is known. */
struct ah_adamw_scalars {
    float beta1, rest1; /* rest: 1 - beta */
    float beta2, rest2;
    float epsilon;
    float neg_rate;   /* -lr / (1 - beta1^step) */
    float root_scale; /* 1 / sqrt(1 - beta2^step) */
    float decay;      /* 1 - lr * weight_decay; used only for tensors that decay */
    float grad_scale; /* clip factor, 1 without clipping */
    float grad_norm;  /* written by clip, for the log */
    uint32_t step;
    uint64_t seed;
};

struct ah_op {
    enum ah_op_kind kind;
    struct ah_ref arg[AH_OP_ARGS];
    union {
        struct ah_op_bytes copy;
        struct ah_op_elements elements; /* fill, cast, add, accumulate */
        struct ah_op_sum sum;           /* sum, sum_squares */
        struct ah_op_matmul matmul;
        struct ah_op_rows rows; /* column_sum, activation, activation_backward */
        struct ah_op_norm norm; /* norm, norm_backward */
        struct ah_op_rope rope;
        struct ah_op_attention attention;
        struct ah_op_embed embed; /* embed, embed_backward, gather */
        struct ah_op_cross_entropy cross_entropy;
        struct ah_op_clip clip;
        struct ah_op_adamw adamw;
        struct ah_op_call call;
        struct ah_op_message message; /* send, receive */
    } u;
};

enum ah_role { AH_ROLE_NONE, AH_ROLE_IN, AH_ROLE_OUT, AH_ROLE_INOUT };

/* One operand as the op uses it: `rows` pieces of `row_bytes`, `stride_bytes` apart. An operand that cannot have a row
 * stride counts as one row. */
struct ah_operand {
    const char *name;  /* "src", "bias" */
    enum ah_role role; /* AH_ROLE_NONE: absent */
    uint32_t
        may_equal; /* for an output: bit i is set if it may share the memory of input i, given equal dtypes */
    uint64_t bytes; /* from its first byte to its last */
    uint64_t rows;
    uint64_t row_bytes;
    uint64_t stride_bytes;
    uint64_t
        moved_bytes; /* bytes touched in one pass, without gaps between rows; for a table, only the selected rows */
    uint64_t align_bytes;
};

const char *ah_op_name(enum ah_op_kind kind);

/* Finds the extent and role of every operand. AH_E_USAGE: the kind is unknown, the sizes overflow or make no sense, an
 * operand is missing or superfluous, or it cannot have its dtype or row stride. The text names op and operand. */
int ah_op_operands(const struct ah_op *op, struct ah_operand ret_operands[AH_OP_ARGS], struct ah_error *err);

/* Returns the bytes moved between memory and processor if the op reads every input once and writes every output once.
 * Returns 0 for a call, and for an op that ah_op_operands() refuses. */
uint64_t ah_op_moved_bytes(const struct ah_op *op);

/* Checks an op as ah_op_operands() does, then where its operands lie. AH_E_CAPACITY: an operand is not inside its arena
 * (sizes by enum ah_arena_kind). AH_E_USAGE: an operand is not aligned, or an output overlaps another operand. */
int ah_op_check(const struct ah_op *op, const uint64_t arena_bytes[AH_ARENA_KINDS], struct ah_error *err);

#endif
