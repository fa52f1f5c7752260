/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoint: one folder that a run can go on from (docs/checkpoints.md).
 *
 * It holds the weights as the ecosystem reads them, the optimizer's states beside them, and a manifest that names
 * every file with its size and sha256. It knows no plan: whoever has the same model and numeric signature goes on from
 * it. Where masters and moments lie (host arenas, device staging) is the caller's affair: saving asks for pieces of
 * them, loading hands pieces out, so that nothing is in memory a second time.
 *
 * The folder appears whole or not at all. Everything is written into PATH.tmp and synced, the manifest last; then it
 * is renamed. This header saves and loads one; checkpoints.h keeps several in a folder, which is what runs use.
 *
 *     const struct ah_checkpoint_job job = {.model = model, .signature = &signature, .config = text};
 *     const struct ah_checkpoint_position at = {.step = 100, .cursor = 800, .tokens = 819200};
 *     rc = ah_checkpoint_save(&job, &at, &source, "out/step-00000100", err);
 *     rc = ah_checkpoint_load(&job, &sink, "out/step-00000100", &at, err);
 *
 * Callbacks are called on the caller's thread, one at a time.
 *
 * TOGETHER. Where several processes see the folder, each may write and read the blocks that it keeps by itself: the one that
 * saves or loads makes the files, checks them and writes the manifest (struct ah_checkpoint_together), and each of them, itself
 * included, calls ah_checkpoint_fill() or ah_checkpoint_read() for its part. The bytes are the same.
 */
#ifndef AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H
#define AH_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINT_H

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/model/weights.h"
#include "runtime/train/checkpoint/companions.h"
#include "schemas/document.h"
#include "schemas/model.h"
#include "schemas/signature.h"

#include <stddef.h>
#include <stdint.h>

/* Written last: a folder is a checkpoint when it has one. */
#define AH_CHECKPOINT_MANIFEST "checkpoint.json"

/* What is saved, and what a checkpoint must agree with to be loaded. Everything is borrowed during calls. */
struct ah_checkpoint_job {
    const struct ah_model *model;
    const struct ah_signature *signature; /* with its `run`; says also what is trained and in which dtypes */
    const char *config; /* (optional) saving: text of the config.json put beside the weights */
    const struct ah_companions *companions; /* (optional) saving: files put beside them as they are */
    uint64_t file_bytes; /* data of one file at most, but for what is larger alone; 0: 5e9 */
};

/* Where the run is: what comes next is step `step` (from 0), from sequence `cursor` on. */
struct ah_checkpoint_position {
    uint64_t step;   /* steps done */
    uint64_t cursor; /* of batches.h: sequences consumed */
    uint64_t tokens; /* loss-bearing tokens so far */
};

enum ah_checkpoint_vector { AH_CHECKPOINT_MASTER, AH_CHECKPOINT_M, AH_CHECKPOINT_V, AH_CHECKPOINT_VECTORS };

enum { AH_CHECKPOINT_PIECE_MAX = 1 << 18 }; /* elements */

/* Elements of the flat vector of a block's trained tensors (flat.h), padding included, which is zero. Frozen blocks
 * have none. Pieces come block by block, vector by vector, ascending, and cover each vector once. */
struct ah_checkpoint_piece {
    uint64_t block;
    enum ah_checkpoint_vector vector;
    enum ah_dtype dtype; /* of the values: masters fp32, moments the signature's state_dtype */
    uint64_t first;
    uint64_t n; /* 1 to AH_CHECKPOINT_PIECE_MAX */
};

/* Gives a piece into `ret_values`, bits as they are. A failure ends the save and is handed on. */
typedef int ah_checkpoint_give(void *context, const struct ah_checkpoint_piece *piece, void *ret_values,
                               struct ah_error *err);
/* Takes a piece; `values` are borrowed until it returns. */
typedef int ah_checkpoint_take(void *context, const struct ah_checkpoint_piece *piece, const void *values,
                               struct ah_error *err);

/* What processes do together; `context` is that of the source, or of the sink. */
struct ah_checkpoint_together {
    /* Does everyone who keeps a block see `folder`, which is empty but for a mark, and is it worth while? */
    int (*meet)(void *context, const char *folder, bool *ret_together, struct ah_error *err);
    /* Everyone, this process included, calls ah_checkpoint_fill(): values are synced when it returns. */
    int (*fill)(void *context, const struct ah_checkpoint_job *job, const char *folder, struct ah_error *err);
    /* Does everyone see a checkpoint in `folder` whose manifest has this sha256? */
    int (*same)(void *context, const char *folder, const char *sha256, bool *ret_together,
                struct ah_error *err);
    /* Everyone, this process included, calls ah_checkpoint_read(). */
    int (*read)(void *context, const struct ah_checkpoint_job *job, const char *folder, struct ah_error *err);
    /* Everyone who keeps the block calls ah_checkpoint_hash() for it, of what was given, or taken. AH_E_DOCUMENT: they differ. */
    int (*hash)(void *context, const struct ah_checkpoint_job *job, uint64_t block, struct ah_sha256 *hash,
                struct ah_error *err);
    /* What was read is what was saved: who has something a second time gets it now. */
    int (*spread)(void *context, struct ah_error *err);
};

/* Weights are asked for and handed out as weights.h has it: in fp32, every parameter, trained or not. Giving masters
 * or the weights made from them is the same: the file has them rounded to the signature's dtype. */
struct ah_checkpoint_source {
    struct ah_weights_source weights;
    ah_checkpoint_give *give;
    void *context; /* of give */
    const struct ah_checkpoint_together
        *together; /* (optional) NULL: this process has everything, or is handed it */
};

struct ah_checkpoint_sink {
    struct ah_weights_sink weights;
    ah_checkpoint_take *take;
    void *context;                                 /* of take */
    const struct ah_checkpoint_together *together; /* (optional) the same */
};

/* Writes `path`, which does not exist, in a folder that does. AH_E_IO: a file cannot be written, by name and reason;
 * PATH.tmp is removed then, if it can be. Where only the last sync fails the checkpoint is there and whole, and the
 * sentence says so. AH_E_MEMORY; what callbacks return. */
int ah_checkpoint_save(const struct ah_checkpoint_job *job, const struct ah_checkpoint_position *position,
                       const struct ah_checkpoint_source *source, const char *path, struct ah_error *err);

/* Writes the weights and what stands beside them alone, as a folder that a new run can begin with; no run can go on
 * from it. Else as ah_checkpoint_save(). */
int ah_checkpoint_save_weights(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                               const char *path, struct ah_error *err);

/* What one takes on disk, no less than it is; exact but for the manifest and headers. */
struct ah_checkpoint_bytes {
    uint64_t whole;
    uint64_t weights; /* by ah_checkpoint_save_weights() */
};

/* Of the job's checkpoints. AH_E_USAGE: the signature's patterns fit no tensor; AH_E_MEMORY. */
int ah_checkpoint_bytes(const struct ah_checkpoint_job *job, struct ah_checkpoint_bytes *ret_bytes,
                        struct ah_error *err);

/* Of a manifest that has been read: may this signature go on from the checkpoint at `path`? AH_E_MISMATCH names the field
 * that differs, with both values where it has one. */
int ah_checkpoint_check_signature(const struct ah_document *manifest, const char *path,
                                  const struct ah_signature *signature, struct ah_error *err);

/* Does every file of the checkpoint at `path` have the size and sha256 of its manifest? Reads all of it. AH_E_DOCUMENT names
 * the file that differs; AH_E_IO, AH_E_MEMORY. */
int ah_checkpoint_verify(const char *path, struct ah_error *err);

/* Reads `path` in this order: the manifest, the signature, presence and size of each file, the checksums of what is
 * not states, states (hashed while they are handed out), weights. After a failure what was handed out is void.
 * AH_E_MISMATCH names the field of the signature that differs. AH_E_DOCUMENT names the file that is missing, has
 * another size or other content, or the field of the manifest that is wrong. AH_E_IO: a file cannot be read.
 * AH_E_MEMORY; what callbacks return. */
int ah_checkpoint_load(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *path, struct ah_checkpoint_position *ret_position, struct ah_error *err);

/* ---- a part of one ---- */

/* Writes states and weights of the blocks of `part` into `folder`, where ah_checkpoint_save() has made the files, and syncs
 * them. Of the job it needs no `run`, config and companions. AH_E_IO, AH_E_MEMORY; what callbacks return. */
int ah_checkpoint_fill(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       const struct ah_weights_part *part, const char *folder, struct ah_error *err);

/* Goes on with a hash by the states of a block, as its file has them; nothing where nothing of it is trained. */
int ah_checkpoint_hash(const struct ah_checkpoint_job *job, const struct ah_checkpoint_source *source,
                       uint64_t block, struct ah_sha256 *hash, struct ah_error *err);

/* Has `folder` a manifest of this sha256? */
bool ah_checkpoint_is(const char *folder, const char *sha256);

/* Hands out states and weights of the blocks that the sink of weights wants. What was read is unchecked. */
int ah_checkpoint_read(const struct ah_checkpoint_job *job, const struct ah_checkpoint_sink *sink,
                       const char *folder, struct ah_error *err);

#endif
