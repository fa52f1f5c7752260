/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the distribution and the pinned bits of initial weights. tests/tools/weights_oracle.py also computes them.
 */
#include "runtime/model/initial.h"

#include "base/sha256.h"
#include "runtime/schedule/flat.h"
#include "schemas/document.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_embd\":96,\"n_layer\":8,\"n_head\":4,"
                           "\"n_positions\":64,\"vocab_size\":300,\"initializer_range\":0.05}";
static const char qwen3[] = "{\"model_type\":\"qwen3\",\"hidden_size\":72,\"num_hidden_layers\":3,"
                            "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":20,"
                            "\"intermediate_size\":100,\"vocab_size\":300,\"max_position_embeddings\":64}";

static void parse(struct ah_document *ret_document, const char *text)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_parse(ret_document, "config.json", text, strlen(text), AH_DOCUMENT_MODEL, &err),
             err);
}

static float *fill_block(const struct ah_model *model, uint64_t seed, uint64_t block,
                         struct ah_flat *ret_flat)
{
    *ret_flat = ah_flat_of(model, ah_model_block_kind(model, block), 0);
    float *values = calloc(ret_flat->elements, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < ret_flat->n; i++) {
        const struct ah_flat_tensor *tensor = &ret_flat->tensors[i];
        ah_initial_fill(model, seed, &(struct ah_weights_piece){block, i, 0, tensor->first, tensor->elements},
                        values + tensor->first);
    }
    return values;
}

TEST(initial, does_not_depend_on_pieces)
{
    uint64_t random = check_seed(3);
    struct ah_document document;
    struct ah_flat flat;
    parse(&document, qwen3);
    const struct ah_model *model = document.body.model;
    float *whole = fill_block(model, 5, 2, &flat), piece[40];
    for (int i = 0; i < 20000; i++) {
        size_t t = check_random(&random) % flat.n;
        uint64_t first = check_random(&random) % flat.tensors[t].elements;
        uint64_t n = 1 + check_random(&random) % 40, left = flat.tensors[t].elements - first;
        n = n < left ? n : left;
        uint64_t element = flat.tensors[t].first + first;
        ah_initial_fill(model, 5, &(struct ah_weights_piece){2, t, first, element, n}, piece);
        assert_memory_equal(piece, whole + element, n * sizeof *piece);
    }
    free(whole);
    ah_document_release(&document);
}

TEST(initial, clears_the_padding_tokens_row)
{
    struct ah_document document;
    struct ah_flat flat;
    parse(&document, qwen3);
    struct ah_model *model = document.body.model;
    float *before = fill_block(model, 5, 0, &flat), piece[40];
    model->padding_token = 7;
    float *after = fill_block(model, 5, 0, &flat);
    for (uint64_t i = 0; i < flat.elements; i++)
        assert_true(after[i] == (i / model->width == 7 ? 0 : before[i]));
    for (uint64_t first = 6 * model->width; first < 8 * model->width; first++) {
        ah_initial_fill(model, 5, &(struct ah_weights_piece){0, 0, first, first, 40}, piece);
        assert_memory_equal(piece, after + first, sizeof piece);
    }
    free(before);
    free(after);
    ah_document_release(&document);
}

TEST(initial, differs_by_seed_and_block)
{
    struct ah_document document;
    struct ah_flat flat;
    parse(&document, qwen3);
    float *one = fill_block(document.body.model, 5, 1, &flat),
          *block = fill_block(document.body.model, 5, 2, &flat),
          *seed = fill_block(document.body.model, 6, 1, &flat);
    const struct ah_flat_tensor *qkv = &flat.tensors[ah_flat_find(&flat, "attention.qkv.weight")];
    size_t same = 0;
    for (uint64_t i = 0; i < qkv->elements; i++) {
        uint64_t at = qkv->first + i;
        same += memcmp(&one[at], &block[at], 4) == 0;
        same += memcmp(&one[at], &seed[at], 4) == 0;
    }
    assert_true(same < 5);
    free(one);
    free(block);
    free(seed);
    ah_document_release(&document);
}

TEST(initial, deviations_are_those_of_transformers)
{
    struct ah_document document;
    parse(&document, gpt2);
    const struct ah_model *model = document.body.model;
    struct ah_flat flat = ah_flat_of(model, AH_BLOCK_LAYER, 0);
    for (size_t i = 0; i < flat.n; i++) {
        const char *name = flat.tensors[i].tensor.name;
        bool scaled = !strcmp(name, "attention.output.weight") || !strcmp(name, "mlp.down.weight");
        double expected = scaled ? 0.0125 : flat.tensors[i].tensor.matrix ? 0.05 : 0; /* sqrt(2 * 8) is 4 */
        check_near(ah_initial_deviation(model, AH_BLOCK_LAYER, i), expected, 1e-15);
    }
    check_near(ah_initial_deviation(model, AH_BLOCK_EMBEDDING, 0), 0.05, 1e-15);
    check_near(ah_initial_deviation(model, AH_BLOCK_EMBEDDING, 1), 0.05, 1e-15);
    ah_document_release(&document);
    parse(&document, qwen3);
    flat = ah_flat_of(document.body.model, AH_BLOCK_LAYER, 0);
    for (size_t i = 0; i < flat.n; i++)
        check_near(ah_initial_deviation(document.body.model, AH_BLOCK_LAYER, i),
                   flat.tensors[i].tensor.matrix ? 0.02 : 0, 1e-15);
    check_near(ah_initial_deviation(document.body.model, AH_BLOCK_HEAD, 1), 0.02, 1e-15);
    ah_document_release(&document);
}

TEST(initial, norms_are_one_and_biases_zero)
{
    struct ah_document document;
    struct ah_flat flat;
    parse(&document, gpt2);
    float *values = fill_block(document.body.model, 5, 1, &flat);
    size_t ones = 0, zeros = 0;
    for (size_t t = 0; t < flat.n; t++) {
        const struct ah_flat_tensor *tensor = &flat.tensors[t];
        if (tensor->tensor.matrix)
            continue;
        bool gain = strstr(tensor->tensor.name, "norm.weight") != NULL;
        ones += gain;
        zeros += !gain;
        for (uint64_t i = 0; i < tensor->elements; i++)
            assert_true(!(fabsf(values[tensor->first + i] - (gain ? 1.0f : 0.0f)) > 0));
    }
    assert_int_equal(ones, 2);
    assert_int_equal(zeros, 6);
    free(values);
    ah_document_release(&document);
}

static int compare_floats(const void *a, const void *b)
{
    float one = *(const float *)a, other = *(const float *)b;
    return (one > other) - (one < other);
}

/* Returns the largest distance of the values' distribution from the normal distribution function, in units of 1 /
 * sqrt(n). One sample in a thousand exceeds 1.95. Sorts `values`. */
static double distance(float *values, size_t n, double deviation)
{
    double most = 0;
    qsort(values, n, sizeof *values, compare_floats);
    for (size_t i = 0; i < n; i++) {
        double expected = 0.5 * erfc(-(double)values[i] / deviation / sqrt(2));
        most = fmax(
            most, fmax(fabs(expected - (double)i / (double)n), fabs(expected - (double)(i + 1) / (double)n)));
    }
    return most * sqrt((double)n);
}

/* Returns the sum of products of elements `lag` apart, over n deviation^2. Its standard deviation is 1 / sqrt(n). */
static double correlation(const float *values, size_t n, size_t lag, double deviation)
{
    double sum = 0;
    for (size_t i = 0; i + lag < n; i++)
        sum += (double)values[i] * (double)values[i + lag];
    return sum / deviation / deviation / (double)n;
}

TEST(initial, is_normal)
{
    enum { N = 1 << 20 };
    struct ah_document document;
    struct ah_model model;
    float *values = malloc(N * sizeof *values);
    parse(&document, gpt2);
    model = *document.body.model;
    model.vocabulary = N / 96 + 1;
    for (uint64_t seed = 0; seed < 3; seed++) {
        double sum = 0, squares = 0, fourth = 0, root = sqrt(N);
        ah_initial_fill(&model, seed, &(struct ah_weights_piece){0, 0, 0, 0, N}, values);
        for (size_t i = 0; i < N; i++) {
            double x = (double)values[i] / 0.05;
            sum += x;
            squares += x * x;
            fourth += x * x * x * x;
        }
        /* each moment is within four standard deviations */
        assert_true(fabs(sum / N) < 4 / root);
        assert_true(fabs(squares / N - 1) < 4 * sqrt(2) / root);
        assert_true(fabs(fourth / N - 3) < 4 * sqrt(96) / root);
        for (size_t lag = 1; lag <= 8; lag++)
            assert_true(fabs(correlation(values, N, lag, 0.05)) < 4 / root);
        double far = distance(values, N, 0.05);
        print_message("seed %d: mean %.5f, variance %.5f, fourth moment %.4f, distance %.3f\n", (int)seed,
                      sum / N, squares / N, fourth / N, far);
        assert_true(far < 1.95);
    }
    free(values);
    ah_document_release(&document);
}

static int hash_piece(void *context, const struct ah_weights_piece *piece, const float *values,
                      struct ah_error *err)
{
    (void)err;
    ah_sha256_update(context, values, piece->n * sizeof *values);
    return AH_OK;
}

static void check_bits(const char *text, uint64_t seed, struct ah_pool *pool, const char *expected)
{
    struct ah_document document;
    struct ah_sha256 hash;
    struct ah_error err = {0};
    unsigned char digest[AH_SHA256_BYTES];
    char hex[AH_SHA256_HEX_MAX];
    parse(&document, text);
    ah_sha256_init(&hash);
    CHECK_OK(ah_initial_load(document.body.model, seed, pool,
                             &(struct ah_weights_sink){.take = hash_piece, .context = &hash}, &err),
             err);
    ah_sha256_finish(&hash, digest);
    assert_string_equal(ah_sha256_hex(digest, hex), expected);
    ah_document_release(&document);
}

/* The bits are part of the numeric signature. If this test fails, runs from a seed can no longer be repeated. */
TEST(initial, bits_are_pinned)
{
    struct ah_pool *pool;
    struct ah_error err = {0};
    CHECK_OK(ah_pool_new(&pool, &(struct ah_pool_options){.threads = 3}, &err), err);
    for (int threads = 0; threads < 2; threads++) {
        struct ah_pool *used = threads ? pool : NULL;
        check_bits(gpt2, 42, used, "dcb81b9a6e57d12a5bb54bc6a736a2ac77f2a6ae800a2becbea2b66e85ef8d9b");
        check_bits(qwen3, UINT64_C(0xFEDCBA9876543210), used,
                   "53d7592b6008616140b638041187f4089cd6c455817da90a875b73d4af9a2441");
    }
    ah_pool_free(pool);
}

static int refuse(void *context, const struct ah_weights_piece *piece, const float *values,
                  struct ah_error *err)
{
    (void)values;
    return piece->block == *(uint64_t *)context ? ah_error_set(err, AH_E_CAPACITY, "no room") : AH_OK;
}

TEST(initial, hands_a_failure_on)
{
    struct ah_document document;
    struct ah_error err = {0};
    uint64_t block = 2;
    parse(&document, qwen3);
    CHECK_FAILS(ah_initial_load(document.body.model, 1, NULL,
                                &(struct ah_weights_sink){.take = refuse, .context = &block}, &err),
                err, AH_E_CAPACITY, "no room");
    ah_document_release(&document);
}

struct some {
    uint64_t wanted;
    size_t n;
};

static bool wants(const void *context, uint64_t block)
{
    return block == ((const struct some *)context)->wanted;
}

static int count(void *context, const struct ah_weights_piece *piece, const float *values,
                 struct ah_error *err)
{
    struct some *some = context;
    (void)values, (void)err;
    assert_int_equal(piece->block, some->wanted);
    some->n += piece->n;
    return AH_OK;
}

TEST(initial, draws_only_the_blocks_that_are_wanted)
{
    struct ah_document document;
    struct ah_error err = {0};
    struct some some = {.wanted = 1};
    parse(&document, qwen3);
    CHECK_OK(ah_initial_load(document.body.model, 1, NULL,
                             &(struct ah_weights_sink){.take = count, .context = &some, .wants = wants},
                             &err),
             err);
    assert_true(some.n > 0);
    ah_document_release(&document);
}
