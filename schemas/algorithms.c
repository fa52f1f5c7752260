/* SPDX-License-Identifier: Apache-2.0 */
#include "schemas/algorithms.h"

#include "schemas/algorithms_internal.h"
#include "schemas/kinds_internal.h"
#include "schemas/machine.h"
#include "schemas/rows_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SIZE(member, sentence)                                                                               \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(ah_algorithm, member), .min = 1, .max = AH_FIELD_COUNT_MAX,             \
        .about = (sentence)                                                                                  \
    }
#define TIME(member, sentence)                                                                               \
    {                                                                                                        \
        .name = #member, AH_GROUP_AT(ah_algorithm, member, &ah_metric_table), .flags = AH_FIELD_OPTIONAL,    \
        .about = (sentence)                                                                                  \
    }

static int algorithm_check(const void *group, struct ah_error *err)
{
    const struct ah_algorithm *algorithm = group;
    if (strlen(algorithm->words) != AH_ALGORITHM_DIGITS ||
        strspn(algorithm->words, "0123456789abcdef") != AH_ALGORITHM_DIGITS)
        return ah_meaning_fail(err, "words", "is not 128 hexadecimal digits");
    return AH_OK;
}

static const struct ah_field algorithm_fields[] = {
    AH_ROW_WORD(ah_algorithm, form, ah_words_matmul_form, "Which operand is transposed."),
    SIZE(m, "Rows of c."),
    SIZE(n, "Columns of c."),
    SIZE(k, "Length of the sums."),
    AH_ROW_WORD(ah_algorithm, dtype, ah_words_dtype, "Type of a and b."),
    AH_ROW_WORD(ah_algorithm, c_dtype, ah_words_dtype, "Type of c and the bias."),
    SIZE(a_stride, "Row stride of a, in elements."),
    SIZE(b_stride, "Row stride of b, in elements."),
    SIZE(c_stride, "Row stride of c, in elements."),
    {.name = "bias", AH_BOOL_AT(ah_algorithm, bias), .about = "Is a bias added?"},
    {.name = "accumulate", AH_BOOL_AT(ah_algorithm, accumulate), .about = "Is the product added to c?"},
    AH_ROW_NAME(ah_algorithm, words, "The library's own description: eight 64-bit numbers in hexadecimal."),
    TIME(us, "Its time."),
    TIME(first_us, "The time of the library's first choice."),
    {0}};
AH_TABLE(algorithm, ah_algorithm, "algorithm", "The algorithm that a matrix product takes.", algorithm_check);

static int algorithms_check(const void *group, struct ah_error *err)
{
    const struct ah_algorithms *algorithms = group;
    for (size_t i = 0; i < algorithms->n_products; i++)
        if (ah_algorithms_find(algorithms, &algorithms->products[i]) != &algorithms->products[i])
            return ah_meaning_fail_item(err, "products", i, NULL, "stands twice");
    return AH_OK;
}

static const struct ah_field algorithms_fields[] = {
    {.name = "library", AH_TEXT_AT(ah_algorithms, library), .about = "The library, with its version."},
    {.name = "products",
     AH_GROUPS_AT(ah_algorithms, products, &algorithm_table),
     .flags = AH_FIELD_OPTIONAL,
     .max_items = AH_ALGORITHMS_MAX,
     .about = "Products whose algorithm was chosen by measuring; others use the library's first choice."},
    {0}};
const struct ah_field_table ah_algorithms_table = {
    .name = "algorithms",
    .about = "The library algorithms that matrix products use; they decide the bits.",
    .bytes = sizeof(struct ah_algorithms),
    .fields = algorithms_fields,
    .check = algorithms_check};

bool ah_algorithm_same_product(const struct ah_algorithm *a, const struct ah_algorithm *b)
{
    return a->form == b->form && a->m == b->m && a->n == b->n && a->k == b->k && a->dtype == b->dtype &&
           a->c_dtype == b->c_dtype && a->a_stride == b->a_stride && a->b_stride == b->b_stride &&
           a->c_stride == b->c_stride && a->bias == b->bias && a->accumulate == b->accumulate;
}

const struct ah_algorithm *ah_algorithms_find(const struct ah_algorithms *algorithms,
                                              const struct ah_algorithm *product)
{
    for (size_t i = 0; i < algorithms->n_products; i++)
        if (ah_algorithm_same_product(&algorithms->products[i], product))
            return &algorithms->products[i];
    return NULL;
}

static void add_entry(struct ah_sha256 *hash, const struct ah_algorithm *it)
{
    char line[512];
    int length = snprintf(line, sizeof line,
                          "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s %" PRIu64 " %" PRIu64 " %" PRIu64
                          " %d %d %s\n",
                          ah_words_matmul_form[it->form], it->m, it->n, it->k, ah_words_dtype[it->dtype],
                          ah_words_dtype[it->c_dtype], it->a_stride, it->b_stride, it->c_stride, it->bias,
                          it->accumulate, it->words);
    ah_sha256_update(hash, line, (size_t)length);
}

void ah_algorithms_digest(const struct ah_algorithms *algorithms, char ret_text[AH_SHA256_HEX_MAX])
{
    struct ah_sha256 hash;
    unsigned char digest[AH_SHA256_BYTES];
    ah_sha256_init(&hash);
    ah_sha256_update(&hash, algorithms->library, strlen(algorithms->library) + 1);
    for (size_t i = 0; i < algorithms->n_products; i++)
        add_entry(&hash, &algorithms->products[i]);
    ah_sha256_finish(&hash, digest);
    ah_sha256_hex(digest, ret_text);
}
