/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads documents as a filter program, for tests written in Python.
 *
 *     document_driver schema KIND           the schema
 *     document_driver print FILE            the canonical text; warnings on stderr
 *     document_driver model FILE            blocks and parameters of a model, a line each
 *     document_driver verdicts              for each path on stdin: "FAULT<tab>error text"; FAULT is none, file, ...
 */
#include "schemas/document.h"
#include "schemas/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int fail(const struct ah_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

static int put(const struct ah_buffer *out, int rc, const struct ah_error *err)
{
    if (rc)
        return fail(err);
    fwrite(out->data, 1, out->size, stdout);
    return 0;
}

static int do_schema(const char *word)
{
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    int status = put(&out, ah_document_schema(ah_document_kind_of(word), &out, &err), &err);
    ah_buffer_release(&out);
    return status;
}

static int do_print(const char *path)
{
    struct ah_document document = {0};
    struct ah_buffer out = {0};
    struct ah_error err = {0};
    if (ah_document_load(&document, path, AH_DOCUMENT_ANY, &err))
        return fail(&err);
    for (size_t i = 0; i < document.n_warnings; i++)
        fprintf(stderr, "warning: %s\n", document.warnings[i]);
    int status = put(&out, ah_document_print(&document, &out, &err), &err);
    ah_buffer_release(&out);
    ah_document_release(&document);
    return status;
}

static int do_model(const char *path)
{
    struct ah_document document = {0};
    struct ah_error err = {0};
    if (ah_document_load(&document, path, AH_DOCUMENT_MODEL, &err))
        return fail(&err);
    const struct ah_model *model = document.body.model;
    struct ah_model_group groups[AH_MODEL_GROUPS_MAX];
    size_t n = ah_model_groups(model, groups);
    printf("parameters %" PRIu64 "\n", ah_model_parameters(model));
    for (size_t i = 0; i < n; i++)
        printf("%s %" PRIu64 " %" PRIu64 "\n", groups[i].name, groups[i].blocks, groups[i].parameters);
    ah_document_release(&document);
    return 0;
}

static int do_verdicts(void)
{
    static const char *const words[] = {"none", "file", "syntax", "shape", "meaning"};
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        struct ah_document document = {0};
        struct ah_error err = {0};
        path[strcspn(path, "\n")] = '\0';
        int rc = ah_document_load(&document, path, AH_DOCUMENT_ANY, &err);
        printf("%s\t%s\n", rc && !document.fault ? "memory" : words[document.fault], rc ? err.text : "");
        ah_document_release(&document);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "schema") == 0)
        return do_schema(argv[2]);
    if (argc == 3 && strcmp(argv[1], "print") == 0)
        return do_print(argv[2]);
    if (argc == 3 && strcmp(argv[1], "model") == 0)
        return do_model(argv[2]);
    if (argc == 2 && strcmp(argv[1], "verdicts") == 0)
        return do_verdicts();
    fprintf(stderr, "usage: document_driver schema KIND | print FILE | model FILE | verdicts\n");
    return 2;
}
