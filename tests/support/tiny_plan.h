/* SPDX-License-Identifier: Apache-2.0
 *
 * The small plan of tests/cli/documents. It is read once for all tests of a program:
 *
 *     return cmocka_run_group_tests(tests, tiny_plan_load, tiny_plan_release);
 */
#ifndef AH_TESTS_SUPPORT_TINY_PLAN_H
#define AH_TESTS_SUPPORT_TINY_PLAN_H

#include "tests/support/documents.h"

#define TINY_PLAN "tests/cli/documents/plan-tiny.json"

static struct ah_document tiny_document;

static inline struct ah_plan *tiny_plan(void)
{
    return tiny_document.body.plan;
}

static inline int tiny_plan_load(void **state)
{
    (void)state;
    load_document(&tiny_document, TINY_PLAN, AH_DOCUMENT_PLAN);
    return 0;
}

static inline int tiny_plan_release(void **state)
{
    (void)state;
    ah_document_release(&tiny_document);
    return 0;
}

#endif
