/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that field tables of many documents have: a required member under its own name, with its limits and a sentence.
 * Below the rows, AH_TABLE defines a table.
 *
 *     static const struct ah_field bytes_fields[] = {AH_ROW_BYTES(ah_moves_bytes, needed, "All of them."), {0}};
 *     AH_TABLE(bytes, ah_moves_bytes, "bytes", "How much gets there how.", NULL);
 */
#ifndef AH_SCHEMAS_ROWS_INTERNAL_H
#define AH_SCHEMAS_ROWS_INTERNAL_H

#include "schemas/field.h"

/* A uint64_t. */
#define AH_ROW_COUNT(tag, member, least, most, sentence)                                                     \
    {                                                                                                        \
        .name = #member, AH_COUNT_AT(tag, member), .min = (least), .max = (most), .about = (sentence)        \
    }
#define AH_ROW_BYTES(tag, member, sentence) AH_ROW_COUNT(tag, member, 0, AH_FIELD_COUNT_MAX, sentence)

/* A double, from 0. */
#define AH_ROW_NUMBER(tag, member, most, sentence)                                                           \
    {                                                                                                        \
        .name = #member, AH_NUMBER_AT(tag, member), .max = (most), .about = (sentence)                       \
    }

/* A text: a name, or a digest. */
#define AH_ROW_NAME(tag, member, sentence)                                                                   \
    {                                                                                                        \
        .name = #member, AH_TEXT_AT(tag, member), .form = AH_TEXT_NAME, .about = (sentence)                  \
    }
#define AH_ROW_SHA256(tag, member, sentence)                                                                 \
    {                                                                                                        \
        .name = #member, AH_TEXT_AT(tag, member), .form = AH_TEXT_SHA256, .about = (sentence)                \
    }

/* An enum; a struct in place. */
#define AH_ROW_WORD(tag, member, list, sentence)                                                             \
    {                                                                                                        \
        .name = #member, AH_WORD_AT(tag, member, list), .about = (sentence)                                  \
    }
#define AH_ROW_GROUP(tag, member, of, sentence)                                                              \
    {                                                                                                        \
        .name = #member, AH_GROUP_AT(tag, member, of), .about = (sentence)                                   \
    }

/* The row `sums` of training and its signature: how gradients of several micro-batches are added up. */
#define AH_ROW_SUMS(tag)                                                                                     \
    {                                                                                                        \
        .name = "sums", AH_COUNTS_AT(tag, sums), .flags = AH_FIELD_OPTIONAL, .min_items = 2,                 \
        .max_items = 65536, .min = 1, .max = AH_BATCH_MAX,                                                   \
        .about = "Micro-batches of each group that is summed separately; absent: all are one group."         \
    }

/* The row `tied` of training and its signature: where gradients of the table of embedding and head are added up. */
#define AH_ROW_TIED(tag)                                                                                     \
    {                                                                                                        \
        .name = "tied", AH_WORD_AT(tag, tied, ah_words_tied), .flags = AH_FIELD_OPTIONAL,                    \
        .about = "split: embedding and head have a copy of their table each; their gradients' sums are "     \
                 "added before both update; absent: joint, one table with one gradient."                     \
    }

/* Defines the table `variable`_table of `variable`_fields. `function` is its check, or NULL. */
#define AH_TABLE(variable, tag, table_name, sentence, function)                                              \
    static const struct ah_field_table variable##_table = {.name = (table_name),                             \
                                                           .about = (sentence),                              \
                                                           .bytes = sizeof(struct tag),                      \
                                                           .fields = variable##_fields,                      \
                                                           .check = (function)}

#endif
