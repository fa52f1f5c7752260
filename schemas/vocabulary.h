/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that documents share (docs/architecture.md): each enum with its spelling, from one list. DTYPE of numbers,
 * FORM of a matrix product, DIRECTION and SIDE of a link, PART of a machine that can work alone, config.
 */
#ifndef AH_SCHEMAS_VOCABULARY_H
#define AH_SCHEMAS_VOCABULARY_H

#include <stddef.h>

/* clang-format off */
#define AH_TIED_WORDS(X)  X(AH_TIED_JOINT, "joint") X(AH_TIED_SPLIT, "split")
#define AH_DTYPE_WORDS(X) X(AH_FP32, "fp32") X(AH_BF16, "bf16")
#define AH_MATMUL_FORM_WORDS(X) X(AH_MATMUL_NN, "nn") X(AH_MATMUL_NT, "nt") X(AH_MATMUL_TN, "tn")
#define AH_DIRECTION_WORDS(X) X(AH_H2D, "h2d") X(AH_D2H, "d2h")
#define AH_SIDE_WORDS(X) X(AH_HOST, "host") X(AH_DEVICE, "device")
#define AH_DEVICE_KIND_WORDS(X) X(AH_DEVICE_CPU, "cpu") X(AH_DEVICE_CUDA, "cuda")
#define AH_MEMORY_PATTERN_WORDS(X) X(AH_MEMORY_READ, "read") X(AH_MEMORY_WRITE, "write") \
    X(AH_MEMORY_COPY, "copy") X(AH_MEMORY_SCALE, "scale")
#define AH_PART_WORDS(X) X(AH_PART_COMPUTE, "compute") X(AH_PART_H2D, "h2d") X(AH_PART_D2H, "d2h") \
    X(AH_PART_HOST_ADAM, "host_adam")
#define AH_ACTIVATIONS_WORDS(X) X(AH_ACTIVATIONS_KEEP, "keep") X(AH_ACTIVATIONS_SELECTIVE, "selective") \
    X(AH_ACTIVATIONS_RECOMPUTE, "recompute")
#define AH_WEIGHTS_WORDS(X) X(AH_WEIGHTS_DEVICE, "device") X(AH_WEIGHTS_HOST, "host") \
    X(AH_WEIGHTS_GATHERED, "gathered")
#define AH_OPTIMIZER_WORDS(X) X(AH_OPTIMIZER_DEVICE, "device") X(AH_OPTIMIZER_HOST, "host") \
    X(AH_OPTIMIZER_STREAMED, "streamed") X(AH_OPTIMIZER_NONE, "none")
/* clang-format on */

#define AH_WORD_VALUE(value, word) value,
enum ah_tied { AH_TIED_WORDS(AH_WORD_VALUE) };
enum ah_dtype { AH_DTYPE_WORDS(AH_WORD_VALUE) };
enum ah_matmul_form { AH_MATMUL_FORM_WORDS(AH_WORD_VALUE) };
enum ah_direction { AH_DIRECTION_WORDS(AH_WORD_VALUE) };
enum ah_side { AH_SIDE_WORDS(AH_WORD_VALUE) };
enum ah_device_kind { AH_DEVICE_KIND_WORDS(AH_WORD_VALUE) };
enum ah_memory_pattern { AH_MEMORY_PATTERN_WORDS(AH_WORD_VALUE) };
enum ah_part { AH_PART_WORDS(AH_WORD_VALUE) };
enum ah_activations { AH_ACTIVATIONS_WORDS(AH_WORD_VALUE) };
enum ah_weights { AH_WEIGHTS_WORDS(AH_WORD_VALUE) };
enum ah_optimizer { AH_OPTIMIZER_WORDS(AH_WORD_VALUE) };
#undef AH_WORD_VALUE

static inline size_t ah_dtype_bytes(enum ah_dtype dtype)
{
    return dtype == AH_BF16 ? 2 : 4;
}

/* NULL-terminated lists of the spellings, indexed by enum value. */
extern const char *const ah_words_tied[];
extern const char *const ah_words_dtype[];
extern const char *const ah_words_matmul_form[];
extern const char *const ah_words_direction[];
extern const char *const ah_words_side[];
extern const char *const ah_words_device_kind[];
extern const char *const ah_words_memory_pattern[];
extern const char *const ah_words_part[];
extern const char *const ah_words_activations[];
extern const char *const ah_words_weights[];
extern const char *const ah_words_optimizer[];

struct ah_text_pair {
    const char *key;
    const char *value;
};

#endif
