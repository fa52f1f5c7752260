/* SPDX-License-Identifier: Apache-2.0
 *
 * The digest of a group covers the work of its ops, but not the offsets of operands or the names of steps. Numbers are
 * hashed as 64 bits, lowest byte first, so that the digest is the same on every machine.
 */
#include "runtime/schedule/program.h"

#include <string.h>

static void add_number(struct ah_sha256 *hash, uint64_t number)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(number >> 8 * i);
    ah_sha256_update(hash, bytes, sizeof bytes);
}

static void add_all(struct ah_sha256 *hash, const uint64_t *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_number(hash, numbers[i]);
}

enum { SIZES = 6 };

static void matmul_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    const uint64_t sizes[] = {op->u.matmul.form, op->u.matmul.epilogue, op->u.matmul.accumulate};
    memcpy(ret_sizes, sizes, sizeof sizes);
}

static void norm_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    const uint64_t sizes[] = {op->u.norm.kind, op->u.norm.heads, op->u.norm.width,
                              op->u.norm.gain_offset != 0};
    memcpy(ret_sizes, sizes, sizeof sizes);
}

static void rope_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    const uint64_t sizes[] = {op->u.rope.heads, op->u.rope.head_dim, op->u.rope.rotated};
    memcpy(ret_sizes, sizes, sizeof sizes);
}

/* Without `past`, which is 0 in training. */
static void attention_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    const struct ah_op_attention *it = &op->u.attention;
    const uint64_t sizes[] = {it->batch, it->seq, it->heads, it->kv_heads, it->head_dim, it->window};
    memcpy(ret_sizes, sizes, sizeof sizes);
}

static void embed_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    ret_sizes[0] = op->u.embed.scale > 0;
}

static void cross_entropy_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    ret_sizes[0] = op->u.cross_entropy.soft_cap > 0;
}

static void activation_sizes(const struct ah_op *op, uint64_t ret_sizes[SIZES])
{
    ret_sizes[0] = op->u.rows.kind;
}

/* By kind of op: a function that lists sizes not visible in the extents of operands; NULL if there are none. Of factors
 * and caps, only whether there is one counts as work. */
static void (*const sizes_of[AH_OP_KINDS])(const struct ah_op *op, uint64_t ret_sizes[SIZES]) = {
    [AH_OP_MATMUL] = matmul_sizes,
    [AH_OP_NORM] = norm_sizes,
    [AH_OP_NORM_BACKWARD] = norm_sizes,
    [AH_OP_ROPE] = rope_sizes,
    [AH_OP_ATTENTION] = attention_sizes,
    [AH_OP_ATTENTION_BACKWARD] = attention_sizes,
    [AH_OP_ACTIVATION] = activation_sizes,
    [AH_OP_ACTIVATION_BACKWARD] = activation_sizes,
    [AH_OP_EMBED] = embed_sizes,
    [AH_OP_EMBED_BACKWARD] = embed_sizes,
    [AH_OP_CROSS_ENTROPY] = cross_entropy_sizes,
};

/* Adds an attention's soft cap, but not its absence: so layers without a cap keep the digests of earlier builds. */
static void add_soft_cap(struct ah_sha256 *hash, const struct ah_op *op)
{
    const bool attention = op->kind == AH_OP_ATTENTION || op->kind == AH_OP_ATTENTION_BACKWARD;
    uint32_t bits;
    memcpy(&bits, &op->u.attention.soft_cap, sizeof bits);
    if (attention && bits)
        add_number(hash, bits);
}

static int add_op(struct ah_sha256 *hash, const struct ah_program_op *step, struct ah_error *err)
{
    struct ah_operand operands[AH_OP_ARGS];
    const char *name = ah_op_name(step->op.kind);
    uint64_t sizes[SIZES] = {0};
    int rc = ah_op_operands(&step->op, operands, err);
    if (rc)
        return rc;
    ah_sha256_update(hash, name, strlen(name) + 1);
    add_number(hash, step->times);
    if (sizes_of[step->op.kind])
        sizes_of[step->op.kind](&step->op, sizes);
    add_all(hash, sizes, SIZES);
    add_soft_cap(hash, &step->op);
    for (size_t i = 0; i < AH_OP_ARGS; i++) {
        const struct ah_operand *it = &operands[i];
        add_all(hash,
                (const uint64_t[]){it->role, it->role ? step->op.arg[i].dtype : 0, it->rows, it->row_bytes,
                                   it->stride_bytes, it->moved_bytes},
                6);
    }
    return AH_OK;
}

int ah_program_digest(const struct ah_job *job, const struct ah_job_group *group,
                      char ret_text[AH_SHA256_HEX_MAX], struct ah_error *err)
{
    struct ah_sha256 hash;
    struct ah_program program;
    unsigned char digest[AH_SHA256_BYTES];
    int rc = AH_OK;
    ah_sha256_init(&hash);
    for (int pass = AH_PASS_FORWARD; pass <= AH_PASS_BACKWARD; pass++)
        for (int way = 0; way < AH_ACTIVATIONS_WAYS && !rc; way++) {
            rc = ah_program_build(job, group, (enum ah_pass)pass, (enum ah_activations)way, &program, err);
            for (size_t i = 0; !rc && i < program.n_ops; i++)
                rc = add_op(&hash, &program.ops[i], err);
            add_number(&hash, AH_OP_KINDS); /* marks the end of a pass */
        }
    if (rc)
        return rc;
    ah_sha256_finish(&hash, digest);
    ah_sha256_hex(digest, ret_text);
    return AH_OK;
}
