/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of field tables that many documents have: a required member under its own name, with its limits and a sentence.
 *
 *     static const struct ah_field bytes_fields[] = {AH_ROW_BYTES(ah_moves_bytes, needed, "All of them."), {0}};
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

/* A double; microseconds are up to `most`. */
#define AH_ROW_US(tag, member, most, sentence)                                                               \
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

#endif
