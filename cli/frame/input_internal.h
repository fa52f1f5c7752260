/* SPDX-License-Identifier: Apache-2.0
 *
 * Built-in documents, as builtin.cmake writes them into the program.
 */
#ifndef AH_CLI_FRAME_INPUT_INTERNAL_H
#define AH_CLI_FRAME_INPUT_INTERNAL_H

#include "schemas/document.h"

struct ah_input_builtin {
    enum ah_document_kind kind;
    const char *name; /* NULL ends the table */
    const unsigned char *text;
    size_t bytes;
};

extern const struct ah_input_builtin ah_input_builtins[];

#endif
