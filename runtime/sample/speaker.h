/* SPDX-License-Identifier: Apache-2.0
 *
 * Speaker: computes what a model says next, by the programs that training uses (runtime/schedule/program.h).
 *
 *     rc = ah_speaker_open(&speaker, &options, err);
 *     rc = ah_speaker_feed(speaker, prompt, n, &logits, err);
 *     token = ah_pick(pick, logits, uniform);                                 // pick.h
 *     rc = ah_speaker_feed(speaker, &token, 1, &logits, err);                 and so on
 *     ah_speaker_close(speaker);
 *
 * Keys and values of tokens that were fed are kept, so a token costs one pass of one row. A prompt passes in pieces of
 * AH_SPEAKER_ROWS rows; the rest of its last piece is computed and then overwritten.
 *
 * MEMORY. Weights stay on the device if they fit beside caches and working memory. Those of the other layers stay on
 * the host, and are copied to one of two slots in each pass, while the layer before computes. The rows of the embedding
 * are gathered on the host, so a tied head has its own copy of the table.
 */
#ifndef AH_RUNTIME_SAMPLE_SPEAKER_H
#define AH_RUNTIME_SAMPLE_SPEAKER_H

#include "base/error.h"
#include "runtime/device/device.h"
#include "schemas/model.h"

#include <stdint.h>

enum { AH_SPEAKER_ROWS = 64 };

struct ah_speaker;

struct ah_speaker_options {
    const struct ah_model *model; /* borrowed; with the adapter's `lora`, if one is given */
    const char *weights;          /* a folder or file, as of ah_weights_load() */
    const char *adapter;          /* (optional) the folder of an adapter in peft's format */
    const uint32_t *adapter_of;   /* what its file has: `trained` of ah_adapter_find() */
    const struct ah_device_driver *driver;
    uint32_t device;       /* index of the device */
    uint64_t memory_bytes; /* the most device memory; 0: what is free */
    enum ah_dtype dtype;   /* of weights, keys, values and everything between them */
    uint32_t positions;    /* the most tokens of a text */
};

/* What a speaker takes. */
struct ah_speaker_facts {
    uint64_t device_bytes, host_bytes;
    uint64_t least_bytes; /* device memory that would do, with all blocks on the host */
    uint64_t streamed;    /* number of blocks whose weights stay on the host */
};

/* Opens the device and loads the weights. AH_E_USAGE: more positions than the model has learned. AH_E_CAPACITY: the
 * device has too little memory even if all layers stay on the host. Errors of ah_device_open(), ah_weights_load(). */
int ah_speaker_open(struct ah_speaker **ret_speaker, const struct ah_speaker_options *options,
                    struct ah_error *err);
void ah_speaker_close(struct ah_speaker *speaker);

/* Appends tokens to the text, and computes the logits of what comes next: `vocabulary` numbers, borrowed until the next
 * call. AH_E_USAGE: there is no token, one is not in the vocabulary, or there are more than `positions` in all. */
int ah_speaker_feed(struct ah_speaker *speaker, const uint32_t *tokens, size_t n, const float **ret_logits,
                    struct ah_error *err);

/* Begins a new text. */
void ah_speaker_restart(struct ah_speaker *speaker);

struct ah_speaker_facts ah_speaker_facts(const struct ah_speaker *speaker);

#endif
