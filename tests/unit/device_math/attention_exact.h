/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as straight loops in double: the reference for test_attention.c.
 */
#ifndef AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_EXACT_H
#define AH_TESTS_UNIT_DEVICE_MATH_ATTENTION_EXACT_H

#include <stdbool.h>
#include <stdint.h>

enum attention_docs { DOCS_NONE, DOCS_ASCENDING, DOCS_ANY, DOCS_OWN, DOCS_TILES };

/* A shape, and the layout of its operands. */
struct attention_shape {
    uint32_t batch, seq, heads, kv_heads, head_dim, window;
    enum attention_docs docs;
    bool packed; /* q, k, v lie in one matrix, as do dq, dk, dv; else rows lie apart */
    float size;  /* of q and k; 0: 1 */
};

/* Operands and exact results; the maker owns all arrays. */
struct attention_data {
    struct attention_shape shape;
    float scale;
    double *q, *k, *v, *dout;         /* rounded to the type */
    double *out, *lse, *dq, *dk, *dv; /* exact */
    uint32_t *docs;
};

/* Number of tokens in all sequences. */
uint64_t attention_exact_rows(const struct attention_shape *shape);

/* Fills the exact results from the values. */
void attention_exact_solve(struct attention_data *data);

/* The loss whose gradient dout is: the sum of dout * out. */
double attention_exact_loss(const struct attention_data *data);

#endif
