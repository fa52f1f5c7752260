/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests that nothing in this process allocates between the first step and the last: neither our code, nor libraries,
 * nor the C library for them. This program defines the allocating functions itself, so that every library calls these.
 * They forward to the C library's. It is not built with sanitizers, which replace the same functions.
 */
#include "tests/golden/train/policies.h"
#include "tests/support/documents.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_uint_fast64_t allocations;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

EXPORTED void *realloc(void *old, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(old, size);
}

EXPORTED void *reallocarray(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(old, bytes);
}

EXPORTED void *memalign(size_t align, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, size);
}

EXPORTED void *aligned_alloc(size_t align, size_t size)
{
    return memalign(align, size);
}

EXPORTED int posix_memalign(void **ret, size_t align, size_t size)
{
    void *memory = memalign(align, size);
    if (memory)
        *ret = memory;
    return memory ? 0 : ENOMEM;
}

EXPORTED void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    atomic_fetch_add(&allocations, 1);
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
}

EXPORTED void *mmap64(void *at, size_t bytes, int protection, int flags, int file, off64_t offset)
{
    return mmap(at, bytes, protection, flags, file, offset);
}

/* Counts as an allocation, because a thread allocates its stack. */
EXPORTED int pthread_create(pthread_t *ret_thread, const pthread_attr_t *attributes, void *(*run)(void *),
                            void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    atomic_fetch_add(&allocations, 1);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return real(ret_thread, attributes, run, argument);
}

static uint64_t counted_by(void (*act)(void))
{
    uint64_t before = atomic_load(&allocations);
    act();
    return atomic_load(&allocations) - before;
}

static void print_to_buffer(void)
{
    char *text;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    fclose(file);
    free(text);
}

static void parse_document(void)
{
    struct ah_document document;
    load_document(&document, "tests/golden/train/llama/config.json", AH_DOCUMENT_MODEL);
    ah_document_release(&document);
}

static void *do_nothing(void *argument)
{
    return argument;
}

static void start_thread(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, do_nothing, NULL), 0);
    pthread_join(thread, NULL);
}

TEST(allocations, of_libraries_are_counted)
{
    assert_true(counted_by(print_to_buffer) > 0); /* allocations of the C library */
    assert_true(counted_by(parse_document) > 10); /* allocations of cJSON */
    assert_true(counted_by(start_thread) > 0);
}

struct watch {
    uint64_t first_step, last_step; /* allocations between these steps are counted */
    uint64_t at_first, at_last;
};

static bool watch_step(void *context, const struct ah_step_record *record)
{
    struct watch *watch = context;
    if (record->step == watch->first_step)
        watch->at_first = atomic_load(&allocations);
    if (record->step == watch->last_step)
        watch->at_last = atomic_load(&allocations);
    return true;
}

static struct golden golden;

static void watch_plan(struct golden *g, uint64_t *plans)
{
    struct watch watch = {.first_step = 1, .last_step = 8};
    struct ah_trainer *trainer;
    struct ah_error err = {0};
    g->options.device.compute_threads = 1 + (uint32_t)(*plans & 1);
    g->options.device.host_threads = 1 + (uint32_t)(*plans >> 1 & 1);
    CHECK_OK(ah_trainer_open(&trainer, &g->options, &err), err);
    CHECK_OK(ah_trainer_run(trainer, 8, &(struct ah_observer){.step = watch_step, .context = &watch}, &err),
             err);
    ah_trainer_close(trainer);
    assert_true(watch.at_first > 0);
    if (watch.at_last != watch.at_first)
        fail_msg("%s: %llu allocations between the first step and the last", g->folder,
                 (unsigned long long)(watch.at_last - watch.at_first));
    ++*plans;
}

TEST(allocations, are_none_between_steps)
{
    static const struct {
        const char *name; /* with and without clip, one micro-batch or several, documents, masks */
        enum ah_dtype dtype, state_dtype;
    } cases[] = {{"gpt2", AH_FP32, AH_FP32},         {"gpt2-untied-odd", AH_BF16, AH_BF16},
                 {"llama-masked", AH_FP32, AH_FP32}, {"mistral-documents", AH_BF16, AH_FP32},
                 {"qwen2", AH_BF16, AH_FP32},        {"qwen3", AH_FP32, AH_FP32}};
    uint64_t seed = check_seed(8), plans = 0, policies = 0;
    struct ah_document machine;
    load_document(&machine, "examples/machines/rtx4090-64g.json", AH_DOCUMENT_MACHINE);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden_open_as(&golden, cases[i].name, cases[i].dtype, cases[i].state_dtype);
        for (int policy = 0; policy < AH_POLICIES; policy++) {
            const struct golden_asked asked = {(enum ah_policy)policy, 0};
            if (!golden_plan_policy(&golden, machine.body.machine, asked))
                continue;
            watch_plan(&golden, &plans);
            policies |= UINT64_C(1) << policy;
        }
        for (int plan = 0; plan < 4; plan++) {
            golden_plan_random(&golden, &seed);
            watch_plan(&golden, &plans);
        }
        golden_close(&golden);
    }
    ah_document_release(&machine);
    assert_int_equal(policies, (UINT64_C(1) << AH_POLICIES) - 1);
}
