/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms: which of a library's algorithms each matrix product uses on one GPU. Algorithms decide bits, so they are
 * chosen once, by measuring, and kept in the machine's document; from there they go into plans and numeric signatures.
 * A product without an entry takes the library's first choice, which depends only on product, GPU and library.
 */
#ifndef AH_SCHEMAS_ALGORITHMS_H
#define AH_SCHEMAS_ALGORITHMS_H

#include "base/error.h"
#include "base/sha256.h"
#include "schemas/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ah_metric; /* machine.h */

enum { AH_ALGORITHM_WORDS = 8, AH_ALGORITHM_DIGITS = 16 * AH_ALGORITHM_WORDS, AH_ALGORITHMS_MAX = 4096 };

/* The algorithm of one product. Strides count elements from row to row, also for dense operands. */
struct ah_algorithm {
    enum ah_matmul_form form;
    uint64_t m, n, k;
    enum ah_dtype dtype;   /* of a and b */
    enum ah_dtype c_dtype; /* of c, and of the bias */
    uint64_t a_stride, b_stride, c_stride;
    bool bias;
    bool accumulate;
    const char
        *words; /* the library's own description: eight 64-bit numbers, AH_ALGORITHM_DIGITS hex digits */
    struct ah_metric *us;       /* (optional) time of the product */
    struct ah_metric *first_us; /* (optional) time with the library's first choice */
};

struct ah_algorithms {
    const char *library; /* "cuBLASLt 13.1.0": the library that understands the words */
    struct ah_algorithm *products;
    size_t n_products;
};

/* True if both entries are for the same product, whatever their words and times. */
bool ah_algorithm_same_product(const struct ah_algorithm *a, const struct ah_algorithm *b);

/* Returns the entry of a product; NULL: there is none. */
const struct ah_algorithm *ah_algorithms_find(const struct ah_algorithms *algorithms,
                                              const struct ah_algorithm *product);

/* Writes the sha256, as text, of the library and the entries in order. Times do not count. */
void ah_algorithms_digest(const struct ah_algorithms *algorithms, char ret_text[AH_SHA256_HEX_MAX]);

#endif
