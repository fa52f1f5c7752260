/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: the one interface to every JSON file that autohete reads or writes.
 *
 * Each kind has a struct and a table of its fields (machine.c, model.c, ...). The table drives the strict reader, the
 * canonical writer, the difference of two documents, the value at a path, and the JSON Schema committed as
 * X.schema.json. Reading is strict: RFC 8259, UTF-8, limited size and depth, no duplicate key, no unknown field, exact
 * integers below 2^53. An error names file and path:
 *
 *     plan.json: blocks[3].optimizer: "gpu" is not one of device, host, streamed, none
 *
 * A `model` may also be an unchanged Hugging Face config.json. A run log is one JSON object per line.
 *
 *     struct ah_document document = {0};
 *     rc = ah_document_load(&document, path, AH_DOCUMENT_MACHINE, err);   // AH_DOCUMENT_ANY: by its `kind`
 *     use(document.body.machine);
 *     ah_document_release(&document);
 */
#ifndef AH_SCHEMAS_DOCUMENT_H
#define AH_SCHEMAS_DOCUMENT_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* value, name in C, the word of `kind` */
#define AH_DOCUMENTS(X)                                                                                      \
    X(AH_DOCUMENT_MODEL, model, "model")                                                                     \
    X(AH_DOCUMENT_MACHINE, machine, "machine")                                                               \
    X(AH_DOCUMENT_CLUSTER, cluster, "cluster")                                                               \
    X(AH_DOCUMENT_PLAN, plan, "plan")                                                                        \
    X(AH_DOCUMENT_CLUSTER_PLAN, cluster_plan, "cluster-plan")                                                \
    X(AH_DOCUMENT_INVENTORY, inventory, "inventory")                                                         \
    X(AH_DOCUMENT_MOVES, moves, "moves")                                                                     \
    X(AH_DOCUMENT_RUNLOG, runlog, "runlog")                                                                  \
    X(AH_DOCUMENT_CHECKPOINT, checkpoint, "checkpoint")                                                      \
    X(AH_DOCUMENT_RESUME, resume, "resume") X(AH_DOCUMENT_STATUS, status, "status")

enum ah_document_kind {
    AH_DOCUMENT_ANY,
#define AH_DOCUMENT_VALUE(value, name, word) value,
    AH_DOCUMENTS(AH_DOCUMENT_VALUE)
#undef AH_DOCUMENT_VALUE
        AH_DOCUMENT_KINDS
};

/* What was wrong when reading failed: the file, its syntax, its shape (what a JSON Schema can express) or its meaning
 * (relations between fields). For tools. */
enum ah_document_fault { AH_FAULT_NONE, AH_FAULT_FILE, AH_FAULT_SYNTAX, AH_FAULT_SHAPE, AH_FAULT_MEANING };

struct ah_document {
    enum ah_document_kind kind;
    struct ah_arena arena; /* owns everything below */
    union {
        void *any;
        struct ah_model *model;
        struct ah_machine *machine;
        struct ah_cluster *cluster;
        struct ah_plan *plan;
        struct ah_cluster_plan *cluster_plan;
        struct ah_inventory *inventory;
        struct ah_moves *moves;
        struct ah_runlog *runlog;
        struct ah_checkpoint *checkpoint;
        struct ah_resume *resume;
        struct ah_status *status;
    } body;
    const char **warnings; /* messages, for example about inert keys of a Hugging Face config */
    size_t n_warnings;
    bool
        outdated; /* a plan of format 1.0 read as 2.0: its knobs and policy's numbers are unknown, and stand as 0 */
    enum ah_document_fault fault; /* why reading failed; stays when the failed document is released */
};

/* "model" <-> AH_DOCUMENT_MODEL; ANY for an unknown word, NULL for ANY. */
enum ah_document_kind ah_document_kind_of(const char *word);
const char *ah_document_word(enum ah_document_kind kind);

/* Returns a name for messages: "standard input" for `-`; a long name is cut in the middle, so that the text after it
 * fits. The result is `out`, `name` or a constant. */
enum { AH_DOCUMENT_NAME_MAX = 400 };
const char *ah_document_short_name(const char *name, char out[AH_DOCUMENT_NAME_MAX]);

/* Reads `path` (`-`: standard input). AH_E_IO if the file cannot be read, AH_E_DOCUMENT if its content is wrong. */
int ah_document_load(struct ah_document *ret_document, const char *path, enum ah_document_kind expected,
                     struct ah_error *err);

/* Like ah_document_load(), from memory; `name` is the file's name in messages. */
int ah_document_parse(struct ah_document *ret_document, const char *name, const char *text, size_t size,
                      enum ah_document_kind expected, struct ah_error *err);

/* Appends the canonical text, which ends with a newline. The same document gives the same bytes. */
int ah_document_print(const struct ah_document *document, struct ah_buffer *out, struct ah_error *err);

/* Writes the text of ah_document_print() to a file, atomically. */
int ah_document_save(const struct ah_document *document, const char *path, struct ah_error *err);

/* The identity of a document's content, for `inputs` and signatures: the sha256, in hexadecimal, of its canonical
 * values without `generator`, `annotations` and the `name` of a model, machine or cluster. A Hugging Face config.json
 * and the model document with the same meaning have the same digest. */
enum { AH_DOCUMENT_DIGEST_MAX = 65 };
int ah_document_digest(const struct ah_document *document, char ret_digest[AH_DOCUMENT_DIGEST_MAX],
                       struct ah_error *err);

/* Checks that a plan's `model` is the one that its inputs name. AH_E_MISMATCH, AH_E_MEMORY. Reading a document does not
 * check this; code that runs or checks a plan does. */
int ah_document_check_model(const struct ah_model *model, const char *stated_sha256, struct ah_error *err);

/* Appends the JSON Schema (2020-12) of a kind. */
int ah_document_schema(enum ah_document_kind kind, struct ah_buffer *out, struct ah_error *err);

/* Finds the value at a path ("time.step_us", "blocks[3].optimizer", "annotations.note"). A list or map is a GROUP whose
 * `number` counts its items. ABSENT: the document leaves out an optional field without a default. AH_E_USAGE names the
 * part of the path that does not exist, and the names that do. */
enum ah_value_kind { AH_VALUE_ABSENT, AH_VALUE_BOOL, AH_VALUE_NUMBER, AH_VALUE_TEXT, AH_VALUE_GROUP };
struct ah_value {
    enum ah_value_kind kind;
    double number;    /* a bool: 0 or 1 */
    const char *text; /* in the document's arena */
};
int ah_document_lookup(const struct ah_document *document, const char *path, struct ah_value *ret_value,
                       struct ah_error *err);

/* Reports every difference between two documents of one kind, in the order of the fields: the path and both values as
 * JSON text ("" if absent). `generator` and `annotations` do not count. `report` may be NULL. Returns the number of
 * differences; SIZE_MAX: out of memory. */
typedef void ah_document_difference(void *context, const char *path, const char *a, const char *b);
size_t ah_document_diff(const struct ah_document *a, const struct ah_document *b,
                        ah_document_difference *report, void *context);

void ah_document_release(struct ah_document *document);

#endif
