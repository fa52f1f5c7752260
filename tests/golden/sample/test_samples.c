/* SPDX-License-Identifier: Apache-2.0
 *
 * What a speaker says is what transformers says in float64 (tests/tools/oracle_samples.py): for every golden case of
 * training, with adapters too, and with the same bits where weights stay on the host.
 */
#include "runtime/sample/pick.h"
#include "runtime/sample/speaker.h"

#include "base/file.h"
#include "runtime/model/adapter.h"
#include "tests/support/check.h"
#include "tests/support/documents.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLES "tests/golden/sample/"
#define CASES   "tests/golden/train/"

enum { TOKENS_MAX = 128, NAME_MAX_BYTES = 64 };

/* The largest difference of a logit, and the smallest margin at which the most probable token must be the same. */
#define TOLERANCE 2e-5
#define MARGIN    1e-4

struct fixture {
    char name[NAME_MAX_BYTES];
    char folder[256];
    struct ah_document model;
    struct ah_arena arena;
    struct ah_adapter_found adapter;
    struct ah_speaker *speaker;
};

static void open_case(struct fixture *f, const char *file, enum ah_dtype dtype, uint64_t memory_bytes)
{
    struct ah_error err = {0};
    char path[512];
    *f = (struct fixture){0};
    snprintf(f->name, sizeof f->name, "%.*s", (int)strcspn(file, "."), file);
    snprintf(f->folder, sizeof f->folder, CASES "%s", f->name);
    snprintf(path, sizeof path, "%s/config.json", f->folder);
    CHECK_OK(ah_document_load(&f->model, path, AH_DOCUMENT_MODEL, &err), err);
    struct ah_speaker_options options = {.model = f->model.body.model,
                                         .weights = f->folder,
                                         .driver = ah_device_cpu(),
                                         .dtype = dtype,
                                         .memory_bytes = memory_bytes,
                                         .positions = (uint32_t)f->model.body.model->max_positions};
    snprintf(path, sizeof path, "%s/adapter_config.json", f->folder);
    if (!access(path, F_OK)) {
        CHECK_OK(ah_adapter_find(f->model.body.model, f->folder, &f->arena, &f->adapter, &err), err);
        f->model.body.model->lora = &f->adapter.lora;
        options.adapter = f->folder;
        options.adapter_of = f->adapter.trained;
    }
    CHECK_OK(ah_speaker_open(&f->speaker, &options, &err), err);
}

static void close_case(struct fixture *f)
{
    ah_speaker_close(f->speaker);
    f->model.body.model->lora = NULL;
    ah_document_release(&f->model);
    ah_arena_release(&f->arena);
}

static size_t read_prompt(const char *line, uint32_t tokens[TOKENS_MAX])
{
    size_t n = 0;
    char *at = (char *)(uintptr_t)line, *end;
    for (uint32_t token = (uint32_t)strtoul(at, &end, 10); end != at && n < TOKENS_MAX;
         token = (uint32_t)strtoul(at, &end, 10)) {
        tokens[n++] = token;
        at = end;
    }
    return n;
}

static void check_logits(const struct fixture *f, const char *line, const float *logits)
{
    char *at = (char *)(uintptr_t)line;
    for (uint64_t i = 0; i < f->model.body.model->vocabulary; i++) {
        const double exact = strtod(at, &at);
        if (!(fabs((double)logits[i] - exact) < TOLERANCE * (1 + fabs(exact))))
            fail_msg("%s: logit %u is %.9g, not %.9g", f->name, (unsigned)i, (double)logits[i], exact);
    }
}

/* Says what the line says, as long as that is certain. */
static void check_greedy(const struct fixture *f, char *at, const float *logits)
{
    const struct ah_pick pick = {.vocabulary = f->model.body.model->vocabulary};
    struct ah_error err = {0};
    for (char *end; *at && *at != '\n'; at = end) {
        const uint32_t token = (uint32_t)strtoul(at, &at, 10);
        const double margin = strtod(at, &end);
        if (margin >= MARGIN)
            assert_int_equal(ah_pick(&pick, logits, 0), token);
        if (*end != '\n')
            CHECK_OK(ah_speaker_feed(f->speaker, &token, 1, &logits, &err), err);
    }
}

static size_t check_texts(const struct fixture *f)
{
    struct ah_error err = {0};
    struct ah_buffer text = {0};
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, SAMPLES "%s.txt", f->name);
    CHECK_OK(ah_file_read(path, 1 << 20, &text, &err), err);
    for (char *at = text.data; (at = strstr(at, "prompt ")); n++) {
        uint32_t tokens[TOKENS_MAX];
        const size_t read = read_prompt(at + strlen("prompt "), tokens);
        const float *logits;
        ah_speaker_restart(f->speaker);
        CHECK_OK(ah_speaker_feed(f->speaker, tokens, read, &logits, &err), err);
        at = strstr(at, "logits ");
        check_logits(f, at + strlen("logits "), logits);
        at = strstr(at, "greedy ");
        check_greedy(f, at + strlen("greedy "), logits);
    }
    ah_buffer_release(&text);
    return n;
}

/* Calls the function for every file of samples. */
static void each_case(void (*check)(const char *file))
{
    DIR *folder = opendir(SAMPLES);
    size_t n = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strstr(entry->d_name, ".txt")) {
            check(entry->d_name);
            n++;
        }
    closedir(folder);
    assert_true(n >= 20);
}

static void check_case(const char *file)
{
    struct fixture f;
    open_case(&f, file, AH_FP32, 0);
    assert_int_equal(ah_speaker_facts(f.speaker).streamed, 0);
    assert_true(check_texts(&f) >= 2);
    close_case(&f);
}

TEST(samples, are_those_of_transformers)
{
    each_case(check_case);
}

/* Feeds a text in pieces, and keeps the last logits. */
static void feed(const struct fixture *f, const size_t *pieces, float *ret_logits)
{
    const uint64_t vocabulary = f->model.body.model->vocabulary;
    struct ah_error err = {0};
    const float *logits;
    uint32_t tokens[TOKENS_MAX];
    ah_speaker_restart(f->speaker);
    for (size_t at = 0; *pieces; at += *pieces++) {
        for (size_t i = 0; i < *pieces; i++)
            tokens[i] = (uint32_t)((at + i) * 37 % vocabulary);
        CHECK_OK(ah_speaker_feed(f->speaker, tokens, *pieces, &logits, &err), err);
    }
    memcpy(ret_logits, logits, vocabulary * sizeof *logits);
}

/* Number of cases whose weights do not all fit into the memory of two blocks. */
static size_t cases_streamed;

/* Weights that stay on the host, and a text in pieces, change no bit. */
static void check_bits(const char *file)
{
    static const size_t whole[] = {15, 0}, parts[] = {7, 5, 3, 0};
    for (enum ah_dtype dtype = AH_FP32; dtype <= AH_BF16; dtype++) {
        struct fixture f;
        float logits[3][1024];
        open_case(&f, file, dtype, 0);
        const uint64_t bytes = ah_speaker_facts(f.speaker).least_bytes;
        feed(&f, whole, logits[0]);
        feed(&f, parts, logits[1]);
        close_case(&f);
        open_case(&f, file, dtype, bytes);
        feed(&f, whole, logits[2]);
        const uint64_t n = f.model.body.model->vocabulary * sizeof(float);
        cases_streamed += ah_speaker_facts(f.speaker).streamed > 0;
        assert_memory_equal(logits[0], logits[1], n);
        assert_memory_equal(logits[0], logits[2], n);
        close_case(&f);
    }
}

TEST(samples, have_the_same_bits_from_the_host_and_in_pieces)
{
    each_case(check_bits);
    assert_true(cases_streamed >= 10);
}
