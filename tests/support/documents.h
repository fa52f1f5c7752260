/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads documents of this repository for tests; the test fails if a document cannot be read.
 */
#ifndef AH_TESTS_SUPPORT_DOCUMENTS_H
#define AH_TESTS_SUPPORT_DOCUMENTS_H

#include "schemas/document.h"
#include "tests/support/check.h"

#include <stdio.h>

static inline void load_document(struct ah_document *ret_document, const char *path,
                                 enum ah_document_kind kind)
{
    struct ah_error err = {0};
    CHECK_OK(ah_document_load(ret_document, path, kind, &err), err);
}

/* Loads examples/machines/NAME.json or, by `kind`, that name in examples/models or examples/clusters. */
static inline void load_example(struct ah_document *ret_document, enum ah_document_kind kind,
                                const char *name)
{
    const char *folder = kind == AH_DOCUMENT_MODEL     ? "models"
                         : kind == AH_DOCUMENT_MACHINE ? "machines"
                                                       : "clusters";
    char path[128];
    snprintf(path, sizeof path, "examples/%s/%s.json", folder, name);
    load_document(ret_document, path, kind);
}

#endif
