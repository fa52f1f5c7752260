/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoint: one folder from which a run can resume (docs/checkpoints.md).
 *
 * It contains the weights in the ecosystem's format, the optimizer's states, and a manifest that names every file with
 * its size and sha256. A checkpoint does not depend on a plan: any run with the same model and numeric signature can
 * resume from it. The caller knows where masters and moments are stored (host arenas, device staging). Saving asks the
 * caller for pieces of these, and loading hands pieces out, so nothing is in memory twice.
 *
 * The folder appears whole or not at all. Everything is written into PATH.tmp and synced, the manifest last; then the
 * folder is renamed. This header saves and loads one. Runs use checkpoints.h, which keeps several in a folder.
 *
 *     const struct ah_checkpoint_job job = {.model = model, .signature = &signature, .config = text};
 *     const struct ah_checkpoint_position at = {.step = 100, .cursor = 800, .tokens = 819200};
 *     rc = ah_checkpoint_save(&job, &at, &source, "out/step-00000100", err);
 *     rc = ah_checkpoint_load(&job, &sink, "out/step-00000100", &at, err);
 *
 * Callbacks are called on the caller's thread, one at a time.
 *
 * TOGETHER. If several processes see the folder, each may write and read its own blocks. One leads: it makes the files,
 * checks them and writes the manifest (struct ah_checkpoint_together). Every process, the leading one included, calls
 * ah_checkpoint_fill() or ah_checkpoint_read() for its blocks. The bytes in the files are the same.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_FOLDER_H

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/model/weights.h"
#include "runtime/train/checkpoint/companions.h"
#include "schemas/document.h"
#include "schemas/model.h"
#include "schemas/signature.h"

#include <stddef.h>
#include <stdint.h>

/* The manifest's name. It is written last: a folder without a manifest is no checkpoint. */
#define AH_CHECKPOINT_MANIFEST "checkpoint.json"

/* What to save; a checkpoint to be loaded must agree with it. Everything is borrowed during calls. */
struct ah_checkpoint_job {
    const struct ah_model *model;
    /* with its `run`; it also says what is trained, and in which dtypes */
    const struct ah_signature *signature;
    const char *config; /* (optional) for saving: text of the config.json saved with the weights */
    const struct ah_companions *companions; /* (optional) for saving: files copied unchanged to the folder */
    uint64_t file_bytes; /* most bytes of data in one file, unless a single item is larger; 0: 5e9 */
};

/* The run's progress. The next step is number `step`, counted from 0, and starts with sequence `cursor`. */
struct ah_checkpoint_position {
    uint64_t step;   /* steps done */
    uint64_t cursor; /* sequences consumed (batches.h) */
    uint64_t tokens; /* loss-bearing tokens so far */
};

enum ah_checkpoint_vector { AH_CHECKPOINT_MASTER, AH_CHECKPOINT_M, AH_CHECKPOINT_V, AH_CHECKPOINT_VECTORS };

enum { AH_CHECKPOINT_PIECE_MAX = 1 << 18 }; /* elements */

/* Elements of the flat vector of a block's trained tensors (flat.h), with its padding, which is zero. Frozen blocks
 * have no pieces. Pieces come block by block, vector by vector, in ascending order, and cover each vector once. */
struct ah_checkpoint_piece {
    uint64_t block;
    enum ah_checkpoint_vector vector;
    enum ah_dtype dtype; /* of the values: masters fp32, moments the signature's state_dtype */
    uint64_t first;
    uint64_t n; /* 1 to AH_CHECKPOINT_PIECE_MAX */
};

/* Copies a piece to `ret_values` bit by bit. A failure ends the save, which returns the code. */
typedef int ah_checkpoint_give(void *context, const struct ah_checkpoint_piece *piece, void *ret_values,
                               struct ah_error *err);
/* Takes a piece. `values` are borrowed until the function returns. */
typedef int ah_checkpoint_take(void *context, const struct ah_checkpoint_piece *piece, const void *values,
                               struct ah_error *err);

/* Calls for processes that save or load together. `context` is that of the source or the sink. */
struct ah_checkpoint_together {
    /* Sets `ret_together` if all processes with a block see `folder`, which only has a mark, and it is worth it. */
    int (*meet)(void *context, const char *folder, bool *ret_together, struct ah_error *err);
    /* Makes all processes, this one included, call ah_checkpoint_fill(). When it returns, their values are synced. */
    int (*fill)(void *context, const struct ah_checkpoint_job *job, const char *folder, struct ah_error *err);
    /* Sets `ret_together` to true if all processes see a checkpoint in `folder` whose manifest has this sha256. */
    int (*same)(void *context, const char *folder, const char *sha256, bool *ret_together,
                struct ah_error *err);
    /* Makes all processes, this one included, call ah_checkpoint_read(). */
    int (*read)(void *context, const struct ah_checkpoint_job *job, const char *folder, struct ah_error *err);
    /* Adds a block's states to `hash` in all processes with it (ah_checkpoint_hash()). AH_E_DOCUMENT: hashes differ. */
    int (*hash)(void *context, const struct ah_checkpoint_job *job, uint64_t block, struct ah_sha256 *hash,
                struct ah_error *err);
    /* Sends values to processes that hold a second copy of them. Called once everything read is verified. */
    int (*spread)(void *context, struct ah_error *err);
};

/* A source of weights and states. As in weights.h, it gives every parameter in fp32, trained or not. It may give
 * masters, or the weights made from them, because the file has both rounded to the signature's dtype. */
struct ah_checkpoint_source {
    struct ah_weights_source weights;
    ah_checkpoint_give *give;
    void *context;                                 /* for `give` */
    const struct ah_checkpoint_together *together; /* (optional) NULL: this process gives all values itself */
};

struct ah_checkpoint_sink {
    struct ah_weights_sink weights;
    ah_checkpoint_take *take;
    void *context;                                 /* for `take` */
    const struct ah_checkpoint_together *together; /* (optional) NULL: this process takes all values itself */
};

/* Writes `path`, which must not exist, while its parent must. AH_E_IO names the file that cannot be written, and why;
 * PATH.tmp is then removed, if possible. If only the last sync fails, the checkpoint exists and is whole, and the
 * message says so. AH_E_MEMORY; errors of callbacks. */
int ah_checkpoint_save(const struct ah_checkpoint_job *job, const struct ah_checkpoint_position *position,
                       const struct ah_checkpoint_source *source, const char *path, struct ah_error *err);

/* Writes a folder with weights, config.json and companions only. A new run can begin with it, but no run can resume
 * from it. Errors are those of ah_checkpoint_save(). */
int ah_checkpoint_save_weights(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                               const char *path, struct ah_error *err);

/* The bytes of a checkpoint on disk, rounded up. They are exact except for the manifest and headers. */
struct ah_checkpoint_bytes {
    uint64_t whole;
    uint64_t weights; /* bytes that ah_checkpoint_save_weights() writes */
};

/* Computes the bytes of the job's checkpoints. AH_E_USAGE: the signature's patterns match no tensor; AH_E_MEMORY. */
int ah_checkpoint_bytes(const struct ah_checkpoint_job *job, struct ah_checkpoint_bytes *ret_bytes,
                        struct ah_error *err);

/* Checks that a run with this signature may resume from the checkpoint at `path`, which has this manifest.
 * AH_E_MISMATCH names the field that differs, with both values if each side has one. */
int ah_checkpoint_check_signature(const struct ah_document *manifest, const char *path,
                                  const struct ah_signature *signature, struct ah_error *err);

/* Checks that every file of the checkpoint at `path` has the size and sha256 in the manifest, by reading all files.
 * AH_E_DOCUMENT names the file that differs; AH_E_IO, AH_E_MEMORY. */
int ah_checkpoint_verify(const char *path, struct ah_error *err);

/* Loads `path`. Checks the manifest, the signature, presence and size of each file, and checksums of files other than
 * states. Then hands out states, hashing them meanwhile, and weights. After a failure, values handed out must not be
 * used. AH_E_MISMATCH names the field of the signature that differs. AH_E_DOCUMENT names the file that is missing or
 * has a wrong size or content, or the wrong field of the manifest. AH_E_IO: a file cannot be read. AH_E_MEMORY; errors
 * of callbacks. */
int ah_checkpoint_load(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *path, struct ah_checkpoint_position *ret_position, struct ah_error *err);

/* ---- a part of a checkpoint ---- */

/* Writes states and weights of the blocks of `part` into `folder`, and syncs them. ah_checkpoint_save() has made the
 * files there. The job needs no `run`, config or companions. AH_E_IO, AH_E_MEMORY; errors of callbacks. */
int ah_checkpoint_fill(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       const struct ah_weights_part *part, const char *folder, struct ah_error *err);

/* Adds the states of a block to `hash`, in the order of their file. Adds nothing if the block is frozen. */
int ah_checkpoint_hash(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       uint64_t block, struct ah_sha256 *hash, struct ah_error *err);

/* True if `folder` has a manifest with this sha256. */
bool ah_checkpoint_is(const char *folder, const char *sha256);

/* Hands out states and weights of the blocks that `sink->weights` wants. Does not check the values. */
int ah_checkpoint_read(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *folder, struct ah_error *err);

#endif
