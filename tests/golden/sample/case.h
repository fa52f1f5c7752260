/* SPDX-License-Identifier: Apache-2.0
 *
 * A golden case with a speaker: its texts, and what transformers says in them (tests/tools/oracle_samples.py).
 *
 *     struct sample_case c;
 *     sample_open(&c, "gpt2", &(struct ah_speaker_options){.driver = ah_device_cpu(), .dtype = AH_FP32});
 *     sample_check_texts(&c, 2e-5);
 *     sample_close(&c);
 */
#ifndef AH_TESTS_GOLDEN_SAMPLE_CASE_H
#define AH_TESTS_GOLDEN_SAMPLE_CASE_H

#include "base/file.h"
#include "runtime/model/adapter.h"
#include "runtime/sample/pick.h"
#include "runtime/sample/speaker.h"
#include "tests/support/check.h"
#include "tests/support/documents.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_TEXTS "tests/golden/sample/"
#define SAMPLE_CASES "tests/golden/train/"

enum { SAMPLE_TOKENS_MAX = 128, SAMPLE_VOCABULARY_MAX = 1024 };

struct sample_case {
    char name[64];
    char folder[256];
    struct ah_document model;
    struct ah_arena arena;
    struct ah_adapter_found adapter;
    struct ah_speaker_options options;
    struct ah_speaker *speaker; /* NULL until sample_open() */
};

/* Loads the case and its adapter, but opens no speaker. `file` is the case's name, perhaps with an ending. */
static inline void sample_load(struct sample_case *c, const char *file,
                               const struct ah_speaker_options *options)
{
    struct ah_error err = {0};
    char path[512];
    *c = (struct sample_case){.options = *options};
    snprintf(c->name, sizeof c->name, "%.*s", (int)strcspn(file, "."), file);
    snprintf(c->folder, sizeof c->folder, SAMPLE_CASES "%s", c->name);
    snprintf(path, sizeof path, "%s/config.json", c->folder);
    load_document(&c->model, path, AH_DOCUMENT_MODEL);
    c->options.model = c->model.body.model;
    c->options.weights = c->folder;
    if (!c->options.positions)
        c->options.positions = (uint32_t)c->model.body.model->max_positions;
    snprintf(path, sizeof path, "%s/adapter_config.json", c->folder);
    if (access(path, F_OK))
        return;
    CHECK_OK(ah_adapter_find(c->model.body.model, c->folder, &c->arena, &c->adapter, &err), err);
    c->model.body.model->lora = &c->adapter.lora;
    c->options.adapter = c->folder;
    c->options.adapter_of = c->adapter.trained;
}

static inline void sample_open(struct sample_case *c, const char *file,
                               const struct ah_speaker_options *options)
{
    struct ah_error err = {0};
    sample_load(c, file, options);
    CHECK_OK(ah_speaker_open(&c->speaker, &c->options, &err), err);
}

static inline void sample_close(struct sample_case *c)
{
    ah_speaker_close(c->speaker);
    c->model.body.model->lora = NULL;
    ah_document_release(&c->model);
    ah_arena_release(&c->arena);
}

/* ---- texts ---- */

static inline size_t sample_read_prompt(const char *line, uint32_t tokens[SAMPLE_TOKENS_MAX])
{
    size_t n = 0;
    char *at = (char *)(uintptr_t)line, *end;
    for (uint32_t token = (uint32_t)strtoul(at, &end, 10); end != at && n < SAMPLE_TOKENS_MAX;
         token = (uint32_t)strtoul(at, &end, 10)) {
        tokens[n++] = token;
        at = end;
    }
    return n;
}

static inline void sample_check_logits(const struct sample_case *c, const char *line, const float *logits,
                                       double tolerance)
{
    char *at = (char *)(uintptr_t)line;
    for (uint64_t i = 0; i < c->model.body.model->vocabulary; i++) {
        const double exact = strtod(at, &at);
        if (!(fabs((double)logits[i] - exact) < tolerance * (1 + fabs(exact))))
            fail_msg("%s: logit %u is %.9g, not %.9g", c->name, (unsigned)i, (double)logits[i], exact);
    }
}

/* Says what the line says. The most probable token must be the same where its margin is five tolerances. */
static inline void sample_check_greedy(const struct sample_case *c, char *at, const float *logits,
                                       double tolerance)
{
    const struct ah_pick pick = {.vocabulary = c->model.body.model->vocabulary};
    struct ah_error err = {0};
    for (char *end; *at && *at != '\n'; at = end) {
        const uint32_t token = (uint32_t)strtoul(at, &at, 10);
        const double margin = strtod(at, &end);
        const uint32_t said = ah_pick(&pick, logits, 0);
        if (margin >= 5 * tolerance && said != token)
            fail_msg("%s: says %u, not %u, with a margin of %g", c->name, said, token, margin);
        if (*end != '\n')
            CHECK_OK(ah_speaker_feed(c->speaker, &token, 1, &logits, &err), err);
    }
}

/* Returns the number of texts. */
static inline size_t sample_check_texts(const struct sample_case *c, double tolerance)
{
    struct ah_error err = {0};
    struct ah_buffer text = {0};
    char path[256];
    size_t n = 0;
    snprintf(path, sizeof path, SAMPLE_TEXTS "%s.txt", c->name);
    CHECK_OK(ah_file_read(path, 1 << 20, &text, &err), err);
    for (char *at = text.data; (at = strstr(at, "prompt ")); n++) {
        uint32_t tokens[SAMPLE_TOKENS_MAX];
        const size_t read = sample_read_prompt(at + strlen("prompt "), tokens);
        const float *logits;
        ah_speaker_restart(c->speaker);
        CHECK_OK(ah_speaker_feed(c->speaker, tokens, read, &logits, &err), err);
        at = strstr(at, "logits ");
        sample_check_logits(c, at + strlen("logits "), logits, tolerance);
        at = strstr(at, "greedy ");
        sample_check_greedy(c, at + strlen("greedy "), logits, tolerance);
    }
    ah_buffer_release(&text);
    return n;
}

/* Feeds a text in pieces, whose sizes end with 0, and keeps the last logits. */
static inline void sample_feed(const struct sample_case *c, const size_t *pieces, float *ret_logits)
{
    const uint64_t vocabulary = c->model.body.model->vocabulary;
    struct ah_error err = {0};
    const float *logits;
    uint32_t tokens[SAMPLE_TOKENS_MAX];
    ah_speaker_restart(c->speaker);
    for (size_t at = 0; *pieces; at += *pieces++) {
        for (size_t i = 0; i < *pieces; i++)
            tokens[i] = (uint32_t)((at + i) * 37 % vocabulary);
        CHECK_OK(ah_speaker_feed(c->speaker, tokens, *pieces, &logits, &err), err);
    }
    memcpy(ret_logits, logits, vocabulary * sizeof *logits);
}

#endif
