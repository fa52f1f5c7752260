/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests which existing files a command may replace: only files of the kind it writes, and never one that it reads.
 */
#include "cli/frame/outputs.h"
#include "tests/support/check.h"
#include "tests/support/root.h"

#include <unistd.h>

struct sample {
    const char *model, *output, *log, *save;
    struct ah_option_list data;
    bool force;
};

static const char *const plans[] = {"plan", NULL};
static const char *const logs[] = {"runlog", NULL};

static const struct ah_option table[] = {
    {"model", 0, AH_OPTION_FILE, "FILE", NULL, offsetof(struct sample, model), "read"},
    {"data", 0, AH_OPTION_FILES, "PATH", NULL, offsetof(struct sample, data), "read"},
    {"save", 0, AH_OPTION_FOLDER, "DIR", NULL, offsetof(struct sample, save), "written into"},
    {"output", 'o', AH_OPTION_OUTPUT, "FILE", plans, offsetof(struct sample, output), "written"},
    {"log", 0, AH_OPTION_OUTPUT, "FILE", logs, offsetof(struct sample, log), "written"},
    AH_OUTPUT_FORCE_ROW(struct sample),
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static const struct ah_option_syntax syntax = {table, {AH_OPERAND_FILE, "PLAN", 1, 1, NULL}};

/* Enters a folder with input files, files of each output kind, and other files. */
static int enter(void **state)
{
    assert_int_equal(root_make(state) | chdir(*state), 0);
    root_put(".", "p.json", "{\"kind\": \"plan\"}");
    root_put(".", "old.json", "{\n  \"kind\": \"plan\"\n}");
    root_put(".", "log.ndjson", "{\"kind\":\"runlog\"}");
    root_put(".", "a.bin", "a");
    root_put(".", "a.bin.docs", "a");
    root_put(".", "text.c", "int \"kind\":\"plan\";");
    root_put("deep", "b.bin", "b");
    root_put("deep", "log.ndjson", "{\"kind\":\"runlog\"}");
    root_put(".", "empty", "");
    return link("a.bin", "hard") | symlink("a.bin", "soft");
}

static int leave(void **state)
{
    return chdir("/") | root_remove(state);
}

static int check(struct sample sample, const char *data, struct ah_error *err)
{
    const char *operand = "p.json";
    const struct ah_arguments arguments = {.operands = &operand, .n_operands = 1};
    if (data)
        sample.data = (struct ah_option_list){&data, 1};
    return ah_outputs_check(&syntax, &arguments, &sample, err);
}

TEST_IN(outputs, never_what_is_read, enter, leave)
{
    const struct {
        struct sample sample;
        const char *data, *said;
    } refused[] = {
        {{.output = "./p.json", .force = true},
         NULL,
         "'--output' './p.json' would overwrite the PLAN that is read"},
        {{.log = "a.bin", .force = true}, "a.bin", "would overwrite what '--data' reads"},
        {{.log = "hard", .force = true}, "a.bin", "would overwrite what '--data' reads"},
        {{.log = "soft", .force = true}, "a.bin", "would overwrite what '--data' reads"},
        {{.log = "a.bin.docs", .force = true},
         "a.bin",
         "would overwrite 'a.bin.docs', part of what '--data' reads"},
        {{.log = "new.mask", .force = true},
         "new",
         "would overwrite 'new.mask', part of what '--data' reads"},
        {{.log = "a.bin", .force = true}, "*.bin", "part of what '--data' reads"},
        {{.log = "deep/b.bin", .force = true}, "deep", "part of what '--data' reads"},
        {{.log = "deep/log.ndjson", .force = true}, "deep", "part of what '--data' reads"},
        {{.log = "deep/b.bin", .model = "deep", .force = true}, NULL, "part of what '--model' reads"},
        {{.output = "new", .model = "new", .force = true}, NULL, "would overwrite what '--model' reads"},
        {{.output = "new", .log = "deep/../new", .force = true},
         NULL,
         "name the same file, 'deep/../new'; give two different ones"},
        {{.log = "new", .save = "./new", .force = true}, NULL, "'--save' and '--log' name the same file"},
        {{.save = "a.bin", .force = true}, "a.bin", "'--save' 'a.bin' would overwrite"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct ah_error err = {0};
        CHECK_FAILS(check(refused[i].sample, refused[i].data, &err), err, AH_E_USAGE, refused[i].said);
    }
}

TEST_IN(outputs, replaces_its_own_kind, enter, leave)
{
    const struct {
        struct sample sample;
        const char *said; /* part of the message, or NULL if accepted */
    } rows[] = {
        {{.output = "old.json"}, NULL},
        {{.output = "new", .log = "empty"}, NULL},
        {{.output = "-", .log = "-"}, NULL},
        {{.output = "/dev/null", .log = "/dev/null"}, NULL},
        {{.log = "deep/log.ndjson", .model = "deep", .force = true}, NULL},
        {{.output = "text.c"}, "exists but holds no plan; give another name, or replace it with '--force'"},
        {{.output = "text.c", .force = true}, NULL},
        {{.output = "log.ndjson"}, "holds no plan"},
        {{.log = "old.json"}, "holds no runlog"},
        {{.log = "log.ndjson"}, "exists from an earlier run"},
        {{.log = "log.ndjson", .force = true}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ah_error err = {0};
        int rc = check(rows[i].sample, NULL, &err);
        if (rows[i].said)
            CHECK_FAILS(rc, err, AH_E_USAGE, rows[i].said);
        else
            CHECK_OK(rc, err);
    }
}

TEST_IN(outputs, can_be_written, enter, leave)
{
    struct ah_error err = {0};
    CHECK_FAILS(check((struct sample){.log = "nowhere/log"}, NULL, &err), err, AH_E_IO,
                "nowhere/log: cannot create a file");
    CHECK_FAILS(check((struct sample){.log = "deep", .force = true}, NULL, &err), err, AH_E_IO,
                "deep: is a folder");
}
