/* SPDX-License-Identifier: Apache-2.0
 *
 * Input: reads files, folders, standard input and built-in documents, and says what a wrong word may have meant.
 */
#include "cli/frame/input.h"

#include "base/file.h"
#include "cli/frame/input_internal.h"
#include "cli/frame/options.h"
#include "runtime/model/adapter.h"
#include "runtime/model/safetensors.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "schemas/nearest.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct ah_input_builtin *find_builtin(const char *name, enum ah_document_kind expected)
{
    for (const struct ah_input_builtin *row = ah_input_builtins; row->name; row++)
        if ((expected == AH_DOCUMENT_ANY || expected == row->kind) && !strcmp(row->name, name))
            return row;
    return NULL;
}

/* Returns the built-in names of a kind; NULL if there are none. NULL also for ANY, whose names are too many to list. */
static const char *const *names_of(enum ah_document_kind kind)
{
    return kind == AH_DOCUMENT_MODEL     ? ah_input_models
           : kind == AH_DOCUMENT_MACHINE ? ah_input_machines
           : kind == AH_DOCUMENT_CLUSTER ? ah_input_clusters
                                         : NULL;
}

static bool ends_with(const char *word, const char *ending)
{
    const size_t length = strlen(word), tail = strlen(ending);
    return length > tail && !strcmp(word + length - tail, ending);
}

static bool ends_with_json(const char *word)
{
    return ends_with(word, ".json");
}

/* Returns the built-in name meant by a misspelled or abbreviated `word`, or one ending in ".json"; NULL: none. */
static const char *near_name(const char *word, enum ah_document_kind expected)
{
    enum { NAMES_MAX = 64 };
    const char *names[NAMES_MAX], *begun = NULL;
    char stem[128];
    size_t n = 0, n_begun = 0, length = strlen(word) - (ends_with_json(word) ? 5 : 0);
    if (length >= sizeof stem)
        return NULL;
    snprintf(stem, sizeof stem, "%.*s", (int)length, word);
    for (const struct ah_input_builtin *row = ah_input_builtins; row->name && n < NAMES_MAX; row++) {
        if (expected != AH_DOCUMENT_ANY && expected != row->kind)
            continue;
        names[n++] = row->name;
        if (!strncmp(row->name, stem, length)) {
            begun = row->name;
            n_begun++;
        }
    }
    const char *near = ah_nearest(stem, names, n);
    return near ? near : n_begun == 1 ? begun : NULL;
}

/* Appends the most similar built-in name, or else all names, to "x: cannot be read: No such file or directory". */
static void add_builtin_names(const char *word, enum ah_document_kind expected, struct ah_error *err)
{
    const char *const *names = names_of(expected);
    const char *near = near_name(word, expected);
    struct ah_buffer more = {0};
    if (near) {
        ah_buffer_printf(&more, "; did you mean the built-in '%s'?", near);
    } else if (names && !ends_with_json(word)) {
        ah_buffer_printf(&more, ", and no %s of that name is built in; there are ",
                         ah_document_word(expected));
        ah_options_join(&more, names);
    }
    size_t used = err ? strlen(err->text) : 0;
    if (err && more.size && !more.failed)
        snprintf(err->text + used, sizeof err->text - used, "%s", more.data);
    ah_buffer_release(&more);
}

/* Turns "dir/", "dir" or "." into a path that ends with the folder's own name, because the model gets that name. */
static int folder_path(const char *word, char ret_path[PATH_MAX], struct ah_error *err)
{
    size_t length = strlen(word);
    while (length > 1 && word[length - 1] == '/')
        length--;
    if (length >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.64s...: the name is too long", word);
    memcpy(ret_path, word, length);
    ret_path[length] = '\0';
    const char *slash = strrchr(ret_path, '/');
    const char *last = slash ? slash + 1 : ret_path;
    char real[PATH_MAX];
    if ((!strcmp(last, ".") || !strcmp(last, "..")) && realpath(ret_path, real))
        memcpy(ret_path, real, strlen(real) + 1);
    return AH_OK;
}

bool ah_input_is_checkpoints(const char *word, struct ah_error *err)
{
    struct ah_checkpoints_found found;
    struct stat about;
    char shown[AH_DOCUMENT_NAME_MAX];
    if (stat(word, &about) || !S_ISDIR(about.st_mode) || ah_checkpoints_find(word, &found, NULL) ||
        !found.folder[0] || !found.path[0])
        return false;
    (void)ah_error_set(err, AH_E_IO, "%s: is a folder of checkpoints; name one of them, such as '%s'",
                       ah_document_short_name(word, shown), found.path);
    return true;
}

static int load_folder(struct ah_document *ret_document, const char *word, enum ah_document_kind expected,
                       struct ah_error *err)
{
    static const char *const files[] = {AH_CHECKPOINT_MANIFEST, "config.json"};
    char folder[PATH_MAX], path[PATH_MAX + 32], shortened[AH_DOCUMENT_NAME_MAX];
    struct stat about;
    *ret_document = (struct ah_document){.fault = AH_FAULT_FILE};
    int rc = folder_path(word, folder, err);
    for (size_t i = expected == AH_DOCUMENT_MODEL; i < sizeof files / sizeof *files && !rc; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        if (lstat(path, &about) != 0)
            continue;
        rc = ah_file_check_regular(path, err);
        return rc ? rc : ah_document_load(ret_document, path, expected, err);
    }
    if (!rc && ah_input_is_checkpoints(folder, err))
        return AH_E_IO;
    const char *other = rc ? NULL : ah_safetensors_other_folder(folder);
    return rc ? rc
              : ah_error_set(err, AH_E_IO, "%s: %s", ah_document_short_name(word, shortened),
                             other ? other
                                   : "is a folder without a config.json; name a model's folder, or a file");
}

void ah_input_add_hub(const char *word, struct ah_error *err)
{
    const char *slash = strchr(word, '/');
    char organisation[PATH_MAX];
    struct stat about;
    if (!err || !slash || slash == word || !slash[1] || strchr(slash + 1, '/') || *word == '.' ||
        *word == '~' || ends_with_json(word) || slash - word >= PATH_MAX)
        return;
    snprintf(organisation, sizeof organisation, "%.*s", (int)(slash - word), word);
    if (stat(organisation, &about) == 0) /* the folder exists, but does not contain the file */
        return;
    const size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used,
             "; autohete downloads nothing: get the model with 'hf download %s --local-dir %s', then name "
             "'%s'",
             word, slash + 1, slash + 1);
}

int ah_input_load(struct ah_document *ret_document, const char *word, enum ah_document_kind expected,
                  struct ah_error *err)
{
    struct stat about;
    bool there = lstat(word, &about) == 0, folder = there && !stat(word, &about) && S_ISDIR(about.st_mode);
    bool models = expected == AH_DOCUMENT_ANY || expected == AH_DOCUMENT_MODEL;
    bool plain = *word && strcmp(word, "-") != 0 && !strchr(word, '/');
    if (folder && models)
        return load_folder(ret_document, word, expected, err);
    const struct ah_input_builtin *builtin = !there && plain ? find_builtin(word, expected) : NULL;
    if (builtin)
        return ah_document_parse(ret_document, word, (const char *)builtin->text, builtin->bytes, expected,
                                 err);
    if (there && models && ends_with(word, ".safetensors")) {
        *ret_document = (struct ah_document){.fault = AH_FAULT_FILE};
        return ah_error_set(err, AH_E_IO, "%s: has weights; name the folder with its config.json", word);
    }
    int rc = ah_document_load(ret_document, word, expected, err);
    if (rc == AH_E_IO && !there && plain)
        add_builtin_names(word, expected, err);
    if (rc == AH_E_IO && !there && models)
        ah_input_add_hub(word, err);
    return rc;
}

int ah_input_check_base(struct ah_cli *cli, const char *adapter, const char *base, struct ah_error *err)
{
    bool other;
    const int rc = ah_adapter_has_other_base(adapter, base, &other, err);
    if (!rc && other)
        ah_cli_tell(cli, AH_CLI_WARNING,
                    "'%s' was trained beside other weights than those in '%s' (or beside the same with other "
                    "names or in "
                    "another type); is this its base?",
                    adapter, base);
    return rc;
}
