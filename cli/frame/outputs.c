/* SPDX-License-Identifier: Apache-2.0
 *
 * Each output is compared with everything that the command line reads, and with the other outputs. A folder stands for
 * the files in it, a pattern for its matches. Each comparison looks at the disk; only existing outputs are opened.
 */
#include "cli/frame/outputs.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_BYTES = 4096 }; /* enough to recognise the kind of a file */

struct output {
    const struct ah_option *row;
    const char *path;
};

/* A path of the command line with its name in messages: "'--data'", "the PLAN that is given". */
struct named {
    const char *label;
    const char *path;
    bool is_data; /* may be a pattern, and may have `.mask` and `.docs` files beside it */
};

static bool is_stream(const char *path)
{
    return !strcmp(path, "-");
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* ---- existing files ---- */

static const void *field_of(const struct ah_option *row, const void *options)
{
    return (const char *)options + row->offset;
}

static const char *path_of(const struct ah_option *row, const void *options)
{
    return *(const char *const *)field_of(row, options);
}

static bool starts_as(const char *head, const char *word)
{
    static const struct {
        const char *word, *begins, *holds;
    } others[] = {{AH_OUTPUT_PAGE, "<!doctype html>", "<title>autohete "},
                  {AH_OUTPUT_TRACE, "{\"displayTimeUnit\":\"ms\",\"otherData\":", "\"simulated\":"},
                  {AH_OUTPUT_CURVES, "step,loss,", ""},
                  {AH_OUTPUT_EXPORT, "# autohete export ", ""},
                  {AH_OUTPUT_EXPORT, "{", "\"train_micro_batch_size_per_gpu\""},
                  {AH_OUTPUT_ANSWERS, "{", "\"answers\":"}};
    const char *kind = strstr(head, "\"kind\"");
    size_t length = strlen(word);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(word, others[i].word) && !strncmp(head, others[i].begins, strlen(others[i].begins)) &&
            strstr(head, others[i].holds))
            return true;
    if (*head != '{' || !kind)
        return false;
    kind += strlen("\"kind\"");
    kind += strspn(kind, " :");
    return kind[0] == '"' && !strncmp(kind + 1, word, length) && kind[1 + length] == '"';
}

/* True if the file begins like one of the kinds that the row writes. */
static bool is_replaceable(const char *path, const struct ah_option *row)
{
    char head[HEAD_BYTES + 1];
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(head, 1, HEAD_BYTES, file) : 0;
    if (file)
        fclose(file);
    head[n] = '\0';
    for (size_t i = 0; row->words && row->words[i]; i++)
        if (starts_as(head, row->words[i]))
            return true;
    return false;
}

/* True if the output has measurements, which another run of the command cannot reproduce. */
static bool is_measured(const struct ah_option *row)
{
    return !strcmp(row->words[0], "runlog") || !strcmp(row->words[0], AH_OUTPUT_TRACE);
}

/* True if the output is a log to which a resumed run appends. The run itself checks such a log. */
static bool is_resumed(const struct ah_option_syntax *syntax, const void *options,
                       const struct ah_option *output)
{
    for (const struct ah_option *row = syntax->options; row->name; row++)
        if (!strcmp(row->name, "resume") && path_of(row, options))
            return output->words && !strcmp(output->words[0], "runlog");
    return false;
}

static int check_there(const struct output *output, bool force, struct ah_error *err)
{
    struct stat about;
    const char *name = output->row->name;
    const bool in_place = !strncmp(output->path, "/dev/", 5);
    if (force || in_place || stat(output->path, &about) || !S_ISREG(about.st_mode) || !about.st_size)
        return AH_OK;
    if (!is_replaceable(output->path, output->row))
        return ah_error_set(
            err, AH_E_USAGE,
            "'--%s' '%s' exists but holds no %s; give another name, or replace it with '--force'", name,
            output->path, output->row->words[0]);
    if (!is_measured(output->row))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--%s' '%s' exists from an earlier run; give another name, or replace it with "
                        "'--force'",
                        name, output->path);
}

/* ---- inputs ---- */

static int refuse_read(const struct output *output, const struct named *read, const char *path,
                       struct ah_error *err)
{
    if (!strcmp(path, read->path))
        return ah_error_set(err, AH_E_USAGE, "'--%s' '%s' would overwrite %s; give another name",
                            output->row->name, output->path, read->label);
    return ah_error_set(err, AH_E_USAGE, "'--%s' '%s' would overwrite '%s', part of %s; give another name",
                        output->row->name, output->path, path, read->label);
}

/* Checks that the output is not `path` or, for data, a file that belongs to it. */
static int check_file(const struct output *output, const struct named *read, const char *path,
                      struct ah_error *err)
{
    static const char *const beside[] = {"", ".mask", ".docs"};
    char name[PATH_MAX];
    for (size_t i = 0; i < (read->is_data ? sizeof beside / sizeof *beside : 1); i++)
        if (snprintf(name, sizeof name, "%s%s", path, beside[i]) < (int)sizeof name &&
            ah_file_same(output->path, name))
            return refuse_read(output, read, name, err);
    return AH_OK;
}

/* True if the output is in the folder, at any depth. */
static bool lies_in(const char *path, const char *folder)
{
    char real[PATH_MAX], above[PATH_MAX];
    if (!realpath(path, real) || !realpath(folder, above))
        return false;
    size_t length = strlen(above);
    return !strncmp(real, above, length) && (real[length] == '/' || !strcmp(above, "/"));
}

/* Checks that the output is not a file in a folder of weights, checkpoints or data, not even by a link. A log is
 * allowed beside checkpoints, but not beside data, where any file could be taken for data. */
static int check_folder(const struct output *output, const struct named *read, const char *folder,
                        struct ah_error *err)
{
    char name[PATH_MAX];
    const bool own = !read->is_data && is_replaceable(output->path, output->row);
    if (!own && lies_in(output->path, folder))
        return refuse_read(output, read, output->path, err);
    DIR *open = own ? NULL : opendir(folder);
    int rc = AH_OK;
    for (struct dirent *entry = open ? readdir(open) : NULL; entry && !rc; entry = readdir(open))
        if (snprintf(name, sizeof name, "%s/%s", folder, entry->d_name) < (int)sizeof name &&
            !is_folder(name) && ah_file_same(output->path, name))
            rc = refuse_read(output, read, name, err);
    if (open)
        closedir(open);
    return rc;
}

static int check_pattern(const struct output *output, const struct named *read, struct ah_error *err)
{
    glob_t found;
    if (glob(read->path, GLOB_NOSORT, NULL, &found))
        return AH_OK;
    int rc = AH_OK;
    for (size_t i = 0; i < found.gl_pathc && !rc; i++)
        rc = check_file(output, read, found.gl_pathv[i], err);
    globfree(&found);
    return rc;
}

static int check_read(const struct output *output, const struct named *read, struct ah_error *err)
{
    if (is_stream(read->path))
        return AH_OK;
    if (is_folder(read->path))
        return output->row->kind == AH_OPTION_FOLDER ? AH_OK : check_folder(output, read, read->path, err);
    int rc = check_file(output, read, read->path, err);
    return !rc && read->is_data && strpbrk(read->path, "*?[") ? check_pattern(output, read, err) : rc;
}

/* ---- the command line ---- */

static int check_row(const struct output *output, const struct ah_option *row, const void *options,
                     struct ah_error *err)
{
    char label[64];
    snprintf(label, sizeof label, "what '--%s' reads", row->name);
    struct named read = {.label = label, .is_data = row->kind == AH_OPTION_FILES};
    int rc = AH_OK;
    if (row->kind == AH_OPTION_FILE && (read.path = path_of(row, options)))
        return check_read(output, &read, err);
    const struct ah_option_list *list = read.is_data ? field_of(row, options) : NULL;
    for (size_t i = 0; list && i < list->n && !rc; i++) {
        read.path = list->items[i];
        rc = check_read(output, &read, err);
    }
    return rc;
}

/* Checks that no later row has the same output file. */
static int check_distinct(const struct output *output, const struct ah_option *row, const void *options,
                          struct ah_error *err)
{
    const char *path = path_of(row, options);
    if (!path || is_stream(path) || !ah_file_same(output->path, path))
        return AH_OK;
    return ah_error_set(err, AH_E_USAGE,
                        "'--%s' and '--%s' name the same file, '%s'; give two different "
                        "ones",
                        output->row->name, row->name, path);
}

static bool is_output(const struct ah_option *row)
{
    return row->kind == AH_OPTION_OUTPUT || row->kind == AH_OPTION_FOLDER;
}

static int check_output(const struct ah_option_syntax *syntax, const struct ah_arguments *arguments,
                        const void *options, const struct output *output, struct ah_error *err)
{
    char label[64];
    struct named operand = {.label = label};
    int rc = AH_OK;
    snprintf(label, sizeof label, "the %s that is read", syntax->operands.name);
    for (size_t i = 0; syntax->operands.kind == AH_OPERAND_FILE && i < arguments->n_operands && !rc; i++) {
        operand.path = arguments->operands[i];
        rc = check_read(output, &operand, err);
    }
    for (const struct ah_option *row = syntax->options; row->name && !rc; row++) {
        if (is_output(row) && row > output->row)
            rc = check_distinct(output, row, options, err);
        else if (!is_output(row))
            rc = check_row(output, row, options, err);
    }
    return rc;
}

static bool is_forced(const struct ah_option_syntax *syntax, const void *options)
{
    for (const struct ah_option *row = syntax->options; row->name; row++)
        if (!strcmp(row->name, "force"))
            return *(const bool *)field_of(row, options);
    return false;
}

int ah_outputs_check(const struct ah_option_syntax *syntax, const struct ah_arguments *arguments,
                     const void *options, struct ah_error *err)
{
    int rc = AH_OK;
    for (const struct ah_option *row = syntax->options; row && row->name && !rc; row++) {
        const struct output output = {row, is_output(row) ? path_of(row, options) : NULL};
        if (!output.path || is_stream(output.path))
            continue;
        rc = check_output(syntax, arguments, options, &output, err);
        if (!rc && row->kind == AH_OPTION_OUTPUT && !is_resumed(syntax, options, row))
            rc = check_there(&output, is_forced(syntax, options), err);
        if (!rc && row->kind == AH_OPTION_OUTPUT)
            rc = ah_outputs_check_writable(output.path, err);
    }
    return rc;
}

int ah_outputs_check_writable(const char *path, struct ah_error *err)
{
    char folder[PATH_MAX];
    struct stat about;
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 1;
    if (length >= sizeof folder)
        return ah_error_set(err, AH_E_IO, "%.64s...: the name is too long", path);
    memcpy(folder, slash ? path : ".", length);
    folder[length] = '\0';
    if (stat(path, &about) == 0) {
        if (S_ISDIR(about.st_mode))
            return ah_error_set(err, AH_E_IO, "%s: is a folder; name a file in it", path);
        if (!S_ISREG(about.st_mode))
            return AH_OK; /* devices and pipes are written in place */
    }
    if (access(folder, W_OK | X_OK) != 0)
        return ah_error_set(err, AH_E_IO, "%s: cannot create a file there: %s", path, strerror(errno));
    return AH_OK;
}
