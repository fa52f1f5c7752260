/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as simple loops in double: the reference for test_attention.c.
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
    bool packed; /* q, k and v are in one matrix, and dq, dk and dv in another; otherwise rows have gaps */
    float size;  /* size of values in q and k; 0 means 1 */
    float cap;   /* the op's soft_cap */
};

/* Operands and exact results; the maker owns all arrays. */
struct attention_data {
    struct attention_shape shape;
    float scale;
    double *q, *k, *v, *dout;         /* inputs, rounded to the type */
    double *out, *lse, *dq, *dk, *dv; /* exact results */
    uint32_t *docs;
};

/* Returns the number of tokens in all sequences. */
uint64_t attention_exact_rows(const struct attention_shape *shape);

/* Computes the exact results from the inputs. */
void attention_exact_solve(struct attention_data *data);

/* Returns the sum of dout * out. As a loss, this sum has the gradient dout. */
double attention_exact_loss(const struct attention_data *data);

#endif
