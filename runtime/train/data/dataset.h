/* SPDX-License-Identifier: Apache-2.0
 *
 * Data set: one stream of tokens from one or several files, with loss masks and beginnings of documents.
 *
 * FILES. A path is a file, a folder, or, if nothing of that name exists, a pattern of glob(7). A folder stands for its
 * token files (`.bin`, `.u16`, `.u32`) or, without any, for its `.txt` files, in the order of their names. The stream
 * is the files of all paths, one after another, in the given order. docs/data.md describes what a file may be:
 *
 *     autohete  64 bytes of header (format.c), then tokens of 2 or 4 bytes
 *     llmc      256 int32 of header (magic 20240520, version 1, count), then u16; or (20240801, 7, count), then u32
 *     u16       2-byte tokens and nothing else, as nanoGPT writes them
 *     u32       4-byte tokens and nothing else
 *     bytes     plain text; a token is a byte, so the vocabulary is 256
 *
 * The magic decides the kind of a file or, without a magic, the name. `.u16` and `.u32` state it; `.bin` is accepted if
 * its values fit only one width; any other name means text, whose bytes are tokens only if the vocabulary is 256. A
 * file of no kind, or of two, is refused, never guessed. An option decides for all. Text among them is refused.
 *
 * FILE.mask has a u8 for each token: 0 if its prediction bears no loss, else 1. FILE.docs has a u64 for each document
 * that begins in the file: the index of its first token, increasing. Either all files have such a companion, or none.
 * Without .docs, each file continues the previous one, except that every file of bytes is a separate document.
 *
 * CHECKED ONCE. Opening reads everything once, in parallel. It checks sizes, that each token is below the vocabulary,
 * that masks are 0 or 1, and that documents increase and are inside the file. It also computes the identity, a part of
 * the numeric signature: a sha256 over kinds, sizes and contents of the files in their order, but not over their names.
 *
 * FILES THAT CHANGE. Nothing is mapped, because a process dies if a mapped file shrinks. Every read checks that the
 * file is still the same one (device, inode, size, time of change). It checks each token again, so that no op gets an
 * index beyond its table. At most AH_DATASET_OPEN_FILES descriptors are held.
 *
 *     struct ah_dataset *data;
 *     rc = ah_dataset_open(&data, &(struct ah_dataset_options){.paths = paths, .n_paths = n,
 *                                                              .vocabulary = model->vocabulary, .pool = pool}, err);
 *     ... batches.h cuts it into samples ...
 *     ah_dataset_close(data);
 *
 * One thread at a time uses a data set.
 */
#ifndef AH_RUNTIME_TRAIN_DATA_DATASET_H
#define AH_RUNTIME_TRAIN_DATA_DATASET_H

#include "base/error.h"
#include "base/pool.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AH_DATASET_OPEN_FILES = 48, AH_DATASET_BYTE_VOCABULARY = 256 };

/* value, word on the command line, description */
#define AH_DATASET_FORMATS(X)                                                                                \
    X(AH_DATASET_AUTO, "auto", "detected for each file from its content and name")                           \
    X(AH_DATASET_LLMC, "llmc", "llm.c token shard")                                                          \
    X(AH_DATASET_U16, "u16", "raw 16-bit tokens")                                                            \
    X(AH_DATASET_U32, "u32", "raw 32-bit tokens")                                                            \
    X(AH_DATASET_BYTES, "bytes", "plain text")                                                               \
    X(AH_DATASET_HEADED, "autohete", "token file of autohete")

enum ah_dataset_format {
#define AH_DATASET_FORMAT_VALUE(value, word, text) value,
    AH_DATASET_FORMATS(AH_DATASET_FORMAT_VALUE)
#undef AH_DATASET_FORMAT_VALUE
        AH_DATASET_FORMAT_COUNT
};

struct ah_dataset;

/* Reports the amount of data checked so far, now and then, on the calling thread. Returns false to stop the check. */
typedef bool ah_dataset_progress_fn(void *context, uint64_t done_bytes, uint64_t total_bytes);

struct ah_dataset_options {
    const char *const *paths; /* files, folders, patterns; borrowed during the call */
    size_t n_paths;
    enum ah_dataset_format format; /* format of every file; AH_DATASET_AUTO: decided for each file */
    uint64_t vocabulary;           /* vocabulary of the model, at most 2^32; tokens must be below it */
    struct ah_pool *pool;          /* (optional) borrowed during the call; NULL: only the caller's thread */
    ah_dataset_progress_fn *progress; /* (optional) */
    void *context;                    /* for `progress`; borrowed during the call */
};

struct ah_dataset_facts {
    uint64_t tokens; /* in all files */
    /* number of documents that begin in the data, at its first token included; 1 without boundaries */
    uint64_t documents;
    /* Number of tokens with mask 1; all without .mask. First tokens of documents count here, but bear no loss. */
    uint64_t unmasked;
    uint64_t align; /* examples are aligned to sequences of this many tokens; 0: they are not */
    size_t files;
    bool has_mask; /* at least one token has mask 0 */
    bool has_docs; /* a document begins after the first token; otherwise positions and docs need no operand */
    char sha256[AH_SHA256_HEX_MAX]; /* the identity */
};

struct ah_dataset_file {
    const char *path; /* borrowed until the data set is closed */
    enum ah_dataset_format format;
    unsigned token_bytes; /* 1, 2 or 4 */
    /* the file does not state its width; values of the other width would not fit the vocabulary */
    bool by_values;
    uint64_t align;       /* as in struct ah_dataset_facts */
    uint64_t first_token; /* its number in the stream */
    uint64_t tokens;      /* at least 1 */
};

/* Finds and checks the files, and computes their identity. AH_E_IO: a file is missing or cannot be read; AH_E_DOCUMENT
 * names file and position of wrong content; AH_E_USAGE: wrong options, a folder without data, or a folder with both
 * held-out data (a name with "val" or "test") and other data; AH_E_MISMATCH: a file changed meanwhile;
 * AH_E_INTERRUPTED: `progress` returned false; AH_E_MEMORY. *Owned* by the caller. */
int ah_dataset_open(struct ah_dataset **ret_data, const struct ah_dataset_options *options,
                    struct ah_error *err);

/* Return facts borrowed until the data set is closed. `index` must be below facts->files. */
const struct ah_dataset_facts *ah_dataset_facts(const struct ah_dataset *data);
const struct ah_dataset_file *ah_dataset_file(const struct ah_dataset *data, size_t index);

/* Arrays of the caller with `count` elements each. Any may be NULL. */
struct ah_dataset_span {
    uint32_t *tokens; /* below the vocabulary */
    /* 1: the prediction of this token bears loss; 0: the token is masked, or a document begins here */
    uint8_t *bears;
    uint8_t *begins; /* 1: a document begins at this token */
};

/* Reads tokens first..first+count-1 of the stream. Allocates nothing. AH_E_IO; AH_E_MISMATCH names a file that changed
 * after the check. After an error the arrays may contain any values below the vocabulary. A range beyond the stream is
 * the caller's mistake (asserted). */
int ah_dataset_read(struct ah_dataset *data, uint64_t first, size_t count, const struct ah_dataset_span *into,
                    struct ah_error *err);

/* Convert between formats and their words, such as "llmc". AH_DATASET_FORMAT_COUNT stands for any other word. */
const char *ah_dataset_format_word(enum ah_dataset_format format);
enum ah_dataset_format ah_dataset_format_of(const char *word);

/* Closes the files. NULL is fine. */
void ah_dataset_close(struct ah_dataset *data);

#endif
