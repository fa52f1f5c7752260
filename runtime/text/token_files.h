/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files: makes the token files of docs/data.md out of text and JSON.
 *
 *     rc = ah_token_files_make(&(struct ah_token_files_options){.tokenizer = tokenizer, ...}, &made, err);
 *
 * An input that ends in .jsonl, .ndjson or .json has an object a line, or is one array of objects. Each is a document:
 * `text`; `prompt` and `completion`; or Alpaca's `instruction`, `input` and `output`. Any other input is text, and one
 * document. Completions and outputs are learned, prompts are not. Bytes that are not UTF-8 become U+FFFD, and are
 * counted.
 *
 * With a mix, documents are taken as often as their input's weight says (mix.h). A further share of a text is its
 * beginning, to the end of a line. Documents are held out from among those that are taken, and once each. Copies lie
 * about a thousand documents apart; each is a document like others.
 */
#ifndef AH_RUNTIME_TEXT_TOKEN_FILES_H
#define AH_RUNTIME_TEXT_TOKEN_FILES_H

#include "runtime/text/chat.h"
#include "runtime/text/mix.h"
#include "runtime/text/text.h"

#include <stdbool.h>

/* What is learned of a conversation. */
enum ah_chat_loss {
    AH_CHAT_LOSS_COMPLETION /* what the assistant says */,
    AH_CHAT_LOSS_LAST /* last */,
    AH_CHAT_LOSS_ALL
};

struct ah_token_files_options {
    const struct ah_text_tokenizer *tokenizer;
    const char *const *inputs;
    size_t n_inputs;
    const char *folder;    /* made if it is missing */
    double held_out;       /* share of the documents, or of the end of each text: 0 to 0.5 */
    uint32_t begin, end;   /* ids that stand before and after each document; UINT32_MAX: none */
    uint64_t shard_tokens; /* a file gets no more, unless a document is longer; 0: 100 million */
    uint64_t align;        /* tokens of a sequence, which gets whole documents and padding; 0: no sequences */
    uint32_t padding;      /* id that fills sequences */
    const struct ah_chat_model *chat; /* NULL: conversations are refused, because of `no_chat` */
    const char *no_chat;
    const char *date; /* that the chat template writes; NULL: its own */
    enum ah_chat_loss loss;
    /* (optional) has `n_inputs` inputs with their weights, and gets their counts; NULL: each document is taken once */
    struct ah_mix *mix;
    unsigned threads; /* that encode; 0: as many as the caller may use */
    /* (optional) called between documents, with bytes read and all bytes; returns false to stop: AH_E_INTERRUPTED */
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t all_bytes);
    void *context;
};

struct ah_token_files_set {
    uint64_t tokens, learned, documents, files;
    /* in sequences: */
    uint64_t padding;      /* tokens */
    uint64_t cut, dropped; /* documents that were longer; of the dropped ones nothing learned was left */
    uint64_t lost;         /* learned tokens that were cut off */
};

struct ah_chat_counts {
    uint64_t conversations;
    uint64_t
        split; /* conversations that became a document for each answer, since the template changes earlier turns */
    uint64_t apart;   /* conversations with an answer that begins or ends within a token of the whole text */
    uint64_t special; /* messages that contain the text of a special token, which is read as that token */
};

struct ah_token_files_made {
    struct ah_token_files_set train, held_out;
    struct ah_chat_counts chats;
    uint64_t silent;   /* documents from which nothing is learned */
    uint64_t replaced; /* places that were not UTF-8 */
};

/* Writes FOLDER/train-00000.bin, .docs and, if something is masked, .mask; val-00000.bin and so on are held out; with a
 * mix also inputs.json. Files appear only when all are written. AH_E_IO: a file cannot be read or written, or exists;
 * AH_E_DOCUMENT names file, line and what is wrong; AH_E_UNSUPPORTED: conversations; AH_E_USAGE: nothing to train on,
 * or to hold out; AH_E_FAILED: no threads. */
int ah_token_files_make(const struct ah_token_files_options *options, struct ah_token_files_made *ret_made,
                        struct ah_error *err);

/* Lengths of documents with tokens that are not learned: such a document must not be cut. Others may be. */
enum { AH_LENGTH_STEP = 64, AH_LENGTHS = 512 };
struct ah_token_lengths {
    uint64_t documents;
    /* i: more than i, at most i + 1 steps of tokens; the last: longer */
    uint64_t by_length[AH_LENGTHS];
};

/* Reads and encodes all inputs, and writes nothing: folder and sequences do not matter. Errors as above. */
int ah_token_files_measure(const struct ah_token_files_options *options, struct ah_token_lengths *ret_lengths,
                           struct ah_error *err);

#endif
