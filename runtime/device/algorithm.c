/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts algorithms of matrix products between documents and devices (algorithm.h).
 */
#include "runtime/device/algorithm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t stride_of(const struct ah_ref *ref, uint64_t width)
{
    return ref->row_stride ? ref->row_stride : width;
}

bool ah_device_algorithm_entry(const struct ah_op *op, struct ah_algorithm *ret_entry)
{
    const struct ah_op_matmul *matmul = &op->u.matmul;
    if (op->kind != AH_OP_MATMUL || matmul->epilogue == AH_EPILOGUE_BIAS_GELU ||
        (matmul->epilogue == AH_EPILOGUE_BIAS && op->arg[3].dtype != op->arg[0].dtype))
        return false;
    *ret_entry = (struct ah_algorithm){
        .form = (enum ah_matmul_form)matmul->form,
        .m = matmul->m,
        .n = matmul->n,
        .k = matmul->k,
        .dtype = (enum ah_dtype)op->arg[1].dtype,
        .c_dtype = (enum ah_dtype)op->arg[0].dtype,
        .a_stride = stride_of(&op->arg[1], matmul->form == AH_MATMUL_TN ? matmul->m : matmul->k),
        .b_stride = stride_of(&op->arg[2], matmul->form == AH_MATMUL_NT ? matmul->k : matmul->n),
        .c_stride = stride_of(&op->arg[0], matmul->n),
        .bias = matmul->epilogue == AH_EPILOGUE_BIAS,
        .accumulate = matmul->accumulate,
    };
    return true;
}

struct ah_op ah_device_algorithm_op(const struct ah_algorithm *entry)
{
    struct ah_op op = {.kind = AH_OP_MATMUL};
    op.arg[0] = (struct ah_ref){AH_ARENA_DEVICE, entry->c_dtype, 0, entry->c_stride};
    op.arg[1] = (struct ah_ref){AH_ARENA_DEVICE, entry->dtype, 0, entry->a_stride};
    op.arg[2] = (struct ah_ref){AH_ARENA_DEVICE, entry->dtype, 0, entry->b_stride};
    if (entry->bias)
        op.arg[3] = (struct ah_ref){AH_ARENA_DEVICE, entry->c_dtype, 0, 0};
    op.u.matmul = (struct ah_op_matmul){.form = entry->form,
                                        .epilogue = entry->bias ? AH_EPILOGUE_BIAS : AH_EPILOGUE_NONE,
                                        .m = entry->m,
                                        .n = entry->n,
                                        .k = entry->k,
                                        .accumulate = entry->accumulate};
    return op;
}

enum { WORD_DIGITS = AH_ALGORITHM_DIGITS / AH_ALGORITHM_WORDS };

void ah_device_algorithm_print(const uint64_t words[AH_ALGORITHM_WORDS],
                               char ret_text[AH_ALGORITHM_DIGITS + 1])
{
    for (size_t i = 0; i < AH_ALGORITHM_WORDS; i++)
        snprintf(ret_text + i * WORD_DIGITS, WORD_DIGITS + 1, "%016" PRIx64, words[i]);
}

static void read_words(const char *text, uint64_t ret_words[AH_ALGORITHM_WORDS])
{
    for (size_t i = 0; i < AH_ALGORITHM_WORDS; i++) {
        char digits[WORD_DIGITS + 1] = {0};
        memcpy(digits, text + i * WORD_DIGITS, WORD_DIGITS);
        ret_words[i] = strtoull(digits, NULL, 16);
    }
}

int ah_device_algorithm_table(const struct ah_algorithms *algorithms, struct ah_arena *arena,
                              struct ah_device_options *options, struct ah_error *err)
{
    _Static_assert(sizeof options->algorithms->words == AH_ALGORITHM_WORDS * sizeof(uint64_t),
                   "the same words");
    if (!algorithms)
        return AH_OK;
    options->library = algorithms->library;
    if (!algorithms->n_products)
        return AH_OK;
    struct ah_device_algorithm *table = ah_arena_array(arena, algorithms->n_products, sizeof *table);
    if (!table)
        return ah_error_memory(err);
    for (size_t i = 0; i < algorithms->n_products; i++) {
        table[i].product = ah_device_algorithm_op(&algorithms->products[i]);
        read_words(algorithms->products[i].words, table[i].words);
    }
    options->algorithms = table;
    options->n_algorithms = algorithms->n_products;
    return AH_OK;
}
