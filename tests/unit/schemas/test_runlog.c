/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading run logs line by line, and their numeric signature.
 */
#include "base/file.h"
#include "schemas/plan.h"
#include "schemas/runlog.h"
#include "schemas/signature.h"
#include "tests/support/documents.h"

#include <stdlib.h>
#include <string.h>

#define PATH "tests/golden/schemas/documents/runlog.ndjson"

static struct ah_document loaded(void)
{
    struct ah_document document;
    load_document(&document, PATH, AH_DOCUMENT_ANY);
    assert_int_equal(document.kind, AH_DOCUMENT_RUNLOG);
    return document;
}

static int parse(struct ah_document *ret_document, const struct ah_buffer *text, struct ah_error *err)
{
    return ah_document_parse(ret_document, "log", text->data, text->size, AH_DOCUMENT_ANY, err);
}

TEST(runlog, reads_what_was_written_line_by_line)
{
    struct ah_document document = loaded();
    const struct ah_runlog *log = document.body.runlog;
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    struct ah_document again;
    CHECK_OK(ah_runlog_print_header(log, &text, &err), err);
    CHECK_OK(parse(&again, &text, &err), err); /* a log without steps yet */
    assert_int_equal(again.body.runlog->n_steps, 0);
    ah_document_release(&again);
    for (size_t i = 0; i < log->n_steps; i++) {
        CHECK_OK(ah_runlog_print_step(&log->steps[i], &text, &err), err);
        CHECK_OK(parse(&again, &text, &err), err);
        assert_int_equal(again.body.runlog->n_steps, i + 1);
        assert_null(again.body.runlog->end);
        ah_document_release(&again);
    }
    CHECK_OK(ah_runlog_print_end(log->end, &text, &err), err);
    CHECK_OK(parse(&again, &text, &err), err);
    assert_int_equal(again.body.runlog->end->reason, AH_RUNLOG_FAILED);
    assert_string_equal(again.body.runlog->end->error, "the loss is not finite");
    ah_document_release(&again);
    struct ah_runlog_step step = {.step = 8, .loss = 3};
    CHECK_OK(ah_runlog_print_step(&step, &text, &err), err);
    CHECK_FAILS(parse(&again, &text, &err), err, AH_E_DOCUMENT, "log: line 6: follows the end line");
    assert_int_equal(again.fault, AH_FAULT_MEANING);
    ah_buffer_release(&text);
    ah_document_release(&document);
}

TEST(runlog, holds_many_steps)
{
    enum { STEPS = 1000 };
    struct ah_document document = loaded();
    struct ah_runlog log = *document.body.runlog;
    struct ah_runlog_step *steps = calloc(STEPS, sizeof *steps);
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    struct ah_document own = {.kind = AH_DOCUMENT_RUNLOG, .body.runlog = &log}, again;
    for (size_t i = 0; i < STEPS; i++)
        steps[i] = (struct ah_runlog_step){.step = log.first_step + i, .loss = 1.0 / (double)(i + 1)};
    log.steps = steps;
    log.n_steps = STEPS;
    log.n_evaluations = log.n_saves = log.n_samples = 0;
    log.end = NULL;
    CHECK_OK(ah_document_print(&own, &text, &err), err);
    CHECK_OK(parse(&again, &text, &err), err);
    assert_int_equal(again.body.runlog->n_steps, STEPS);
    for (size_t i = 0; i < STEPS; i++)
        check_near(again.body.runlog->steps[i].loss, 1.0 / (double)(i + 1), 0);
    ah_document_release(&again);
    ah_buffer_release(&text);
    free(steps);
    ah_document_release(&document);
}

/* An evaluation, a save and samples come before a resume after the same step. */
TEST(runlog, prints_resumes_where_they_happened)
{
    struct ah_document document = loaded(), again;
    struct ah_runlog log = *document.body.runlog;
    const uint64_t at = log.first_step;
    struct ah_document own = {.kind = AH_DOCUMENT_RUNLOG, .body.runlog = &log};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    log.evaluations = &(struct ah_runlog_evaluation){.step = at, .loss = 2, .tokens = 5};
    log.saves = &(struct ah_runlog_save){.step = at, .us = 1, .bytes = 7};
    log.samples = &(struct ah_runlog_sample){.step = at, .prompt = "Two?", .text = "2"};
    log.resumes = (struct ah_runlog_resume[]){{at}, {at}};
    log.n_evaluations = log.n_saves = log.n_samples = 1;
    log.n_resumes = 2;
    CHECK_OK(ah_document_print(&own, &text, &err), err);
    assert_non_null(strstr(text.data, "\"bytes\":7}\n{\"line\":\"sample\",\"step\":"));
    assert_non_null(strstr(text.data, "\"text\":\"2\"}\n{\"line\":\"resume\",\"step\":"));
    CHECK_OK(parse(&again, &text, &err), err);
    assert_int_equal(again.body.runlog->n_resumes, 2);
    assert_int_equal(again.body.runlog->resumes[1].step, at);
    assert_int_equal(again.body.runlog->n_steps, log.n_steps);
    ah_document_release(&again);
    ah_buffer_release(&text);
    ah_document_release(&document);
}

/* Each sample is one line of valid JSON, whatever the model says. */
TEST(runlog, keeps_hostile_samples_in_a_line)
{
    enum { LONG = 100000 };
    char *much = calloc(1, LONG + 1);
    memset(much, 'y', LONG);
    const struct {
        const char *said, *read;
    } rows[] = {{"", ""},
                {"two\nlines\r\t\"\\\x01\x1b[2J\x7f", NULL},
                {"</script><!-- \xe2\x80\xa8 \xf0\x9f\x98\x80", NULL},
                {"cut \xf0\x9f\x98", "cut ???"},
                {"\xff\xc0\x80\xed\xa0\x80", "??????"},
                {much, NULL}};
    struct ah_document document = loaded(), again;
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_runlog_print_header(document.body.runlog, &text, &err), err);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct ah_runlog_sample sample = {.step = document.body.runlog->first_step - 1,
                                                .prompt = rows[i].said,
                                                .text = rows[i].said,
                                                .data = i % 2 ? rows[i].said : NULL};
        CHECK_OK(ah_runlog_print_sample(&sample, &text, &err), err);
    }
    CHECK_OK(parse(&again, &text, &err), err);
    assert_int_equal(again.body.runlog->n_samples, sizeof rows / sizeof *rows);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct ah_runlog_sample *sample = &again.body.runlog->samples[i];
        const char *read = rows[i].read ? rows[i].read : rows[i].said;
        assert_string_equal(sample->prompt, read);
        assert_string_equal(sample->text, read);
        assert_int_equal(sample->data != NULL, i % 2);
    }
    ah_document_release(&again);
    ah_buffer_release(&text);
    ah_document_release(&document);
    free(much);
}

TEST(runlog, steps_do_not_go_back)
{
    struct ah_document document = loaded(), again;
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_runlog_print_header(document.body.runlog, &text, &err), err);
    CHECK_OK(ah_runlog_print_step(&document.body.runlog->steps[1], &text, &err), err);
    CHECK_OK(ah_runlog_print_step(&document.body.runlog->steps[0], &text, &err), err);
    CHECK_FAILS(parse(&again, &text, &err), err, AH_E_DOCUMENT,
                "log: line 2: step: 6 appears where 5 is expected");
    ah_buffer_release(&text);
    ah_document_release(&document);
}

/* Inserts text into the log, as line 5, after step 6 or before line 1, and checks the message. */
TEST(runlog, names_the_line_that_is_wrong)
{
    static const struct {
        const char *before, *inside, *part;
    } rows[] = {
        {"", "\n", "log: line 5: is blank; a run log has one JSON object per line"},
        {"", " \t\r\n", "log: line 5: is blank"},
        {"\n\n", "", "log: line 1: is blank"},
        {"", "{\"line\":\"evaluation\",\"step\":9,\"loss\":2,\"tokens\":5}\n",
         "log: line 5: step: 9 was not done; the last one was 6"},
        {"", "{\"line\":\"save\",\"step\":5,\"us\":2,\"bytes\":5}\n",
         "log: line 5: step: goes back to 5, but the last one was 6"},
        {"", "{\"line\":\"end\",\"step\":7,\"reason\":\"done\"}\n", "log: line 5: step: 7 was not done"},
        {"", "{\n\"line\":7}\n", "log:5:2: "},
    };
    struct ah_buffer whole = {0};
    struct ah_error err = {0};
    CHECK_OK(ah_file_read(PATH, 1 << 20, &whole, &err), err);
    const char *cut = whole.data;
    for (int line = 1; line < 5; line++)
        cut = strchr(cut, '\n') + 1;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ah_buffer text = {0};
        struct ah_document document;
        ah_buffer_puts(&text, rows[i].before);
        ah_buffer_append(&text, whole.data, (size_t)(cut - whole.data));
        ah_buffer_puts(&text, rows[i].inside);
        ah_buffer_puts(&text, cut);
        CHECK_FAILS(parse(&document, &text, &err), err, AH_E_DOCUMENT, rows[i].part);
        ah_buffer_release(&text);
    }
    ah_buffer_release(&whole);
}

TEST(runlog, is_not_one_object_over_many_lines)
{
    static const char text[] = "{\n  \"kind\": \"runlog\",\n  \"format_version\": \"1.0\"\n}\n";
    struct ah_document document;
    struct ah_error err = {0};
    CHECK_FAILS(ah_document_parse(&document, "log", text, strlen(text), AH_DOCUMENT_ANY, &err), err,
                AH_E_DOCUMENT, "log: a run log has one JSON object per line");
}

static void check_differs(const struct ah_signature *a, const struct ah_signature *b, const char *expected)
{
    char path[AH_SIGNATURE_PATH_MAX] = "";
    assert_int_equal(ah_signature_differs(a, b, path), expected != NULL);
    assert_int_equal(ah_signature_differs(b, a, path), expected != NULL);
    assert_string_equal(path, expected ? expected : "");
}

TEST(runlog, signature_names_the_first_field_that_differs)
{
    struct ah_document log = loaded(), plan;
    const char *patterns[] = {"*", "!embedding.*"};
    load_document(&plan, "tests/golden/schemas/documents/plan.json", AH_DOCUMENT_PLAN);
    struct ah_signature a = log.body.runlog->numeric_signature;
    struct ah_signature b = plan.body.plan->numeric_signature;
    check_differs(&a, &b, NULL); /* a plan has none of a run's fields */
    b.seq = 512;
    check_differs(&a, &b, "seq");
    b = a;
    b.trainable = patterns;
    check_differs(&a, &b, NULL);
    b.n_trainable = 2;
    check_differs(&a, &b, "trainable");
    b = a;
    struct ah_signature_run run = *a.run;
    b.run = &run;
    check_differs(&a, &b, NULL);
    run.lr = 1;
    check_differs(&a, &b, "run.lr");
    run = *a.run;
    run.data_sha256 = "0";
    check_differs(&a, &b, "run.data_sha256");
    ah_document_release(&plan);
    ah_document_release(&log);
}
