/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocation hook (fault.h): wraps malloc() and its relatives at link time, and makes a chosen call fail.
 */
#include "tests/support/fault.h"

#include "tests/support/check.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **ret, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **ret, size_t align, size_t size);

static atomic_size_t allocations;
static atomic_size_t failing; /* which allocation fails, counted from 1; 0: none */

static int fails(void)
{
    size_t number = atomic_fetch_add(&allocations, 1) + 1;
    return number == atomic_load(&failing);
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **ret, size_t align, size_t size)
{
    return fails() ? ENOMEM : __real_posix_memalign(ret, align, size);
}

size_t fault_sweep(int (*run)(void *context, struct ah_error *err), void *context, int may_succeed)
{
    cJSON_Hooks hooks = {__wrap_malloc, free};
    cJSON_InitHooks(&hooks);
    for (size_t n = 1;; n++) {
        struct ah_error err = {0};
        atomic_store(&allocations, 0);
        atomic_store(&failing, n);
        int rc = run(context, &err);
        size_t used = atomic_load(&allocations);
        atomic_store(&failing, 0);
        if (used < n) {
            if (rc)
                fail_msg("fails without a failing allocation: %s", err.text);
            cJSON_InitHooks(NULL);
            return used;
        }
        if (!rc && !may_succeed)
            fail_msg("allocation %zu failed, yet the code reports success", n);
        if (rc && (rc != err.code || !err.text[0]))
            fail_msg("allocation %zu failed: returned %d, error holds %d '%s'", n, rc, err.code, err.text);
    }
}

size_t fault_count(void)
{
    return atomic_exchange(&allocations, 0);
}
