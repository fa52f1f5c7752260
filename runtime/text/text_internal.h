/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer in memory, and the steps of encoding.
 *
 *     added.c       text -> added tokens, and the text between them
 *     normal_form.c a text between them -> its normal form
 *     words.c       a normal form -> words
 *     bpe.c         a word -> tokens
 *     encode.c      all of it
 *     read.c        tokenizer.json -> the tokenizer
 *     pieces.c      pieces and pairs by their hash
 */
#ifndef AH_RUNTIME_TEXT_TEXT_INTERNAL_H
#define AH_RUNTIME_TEXT_TEXT_INTERNAL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "runtime/text/text.h"

#include <stdbool.h>

#define AH_TEXT_NONE UINT32_MAX

/* Bytes that are borrowed. */
struct ah_text_piece {
    const char *at;
    size_t size;
};

/* ---- pieces.c ---- */

/* Pieces by their text: an open hash table of positions in `pieces`. */
struct ah_text_vocabulary {
    struct ah_text_piece *pieces; /* by position; in arena */
    uint32_t *ids;                /* by position */
    size_t n, room;
    uint32_t *slots; /* position + 1; 0: free */
    size_t mask;
};

/* Pairs of tokens that are merged: rank and result, by the pair. */
struct ah_text_merge {
    uint32_t left, right, rank, id;
};
struct ah_text_merges {
    struct ah_text_merge *items; /* in arena; a free one has the id AH_TEXT_NONE */
    size_t n, mask;
};

/* Make room for `n` items. Return false if there is no memory. */
bool ah_text_vocabulary_init(struct ah_text_vocabulary *vocabulary, struct ah_arena *arena, size_t n);
bool ah_text_merges_init(struct ah_text_merges *merges, struct ah_arena *arena, size_t n);

/* Adds a piece, whose text stays borrowed. A second one of the same text replaces the first's id. */
void ah_text_vocabulary_add(struct ah_text_vocabulary *vocabulary, struct ah_text_piece piece, uint32_t id);
uint32_t ah_text_vocabulary_find(const struct ah_text_vocabulary *vocabulary, struct ah_text_piece piece);

void ah_text_merges_add(struct ah_text_merges *merges, const struct ah_text_merge *merge);
const struct ah_text_merge *ah_text_merges_find(const struct ah_text_merges *merges, uint32_t left,
                                                uint32_t right);

/* ---- added.c ---- */

struct ah_text_added {
    struct ah_text_piece text;
    uint32_t id;
    bool single_word, strips_left, strips_right, normalized;
};

/* The added tokens of one kind, by their text. A model may have thousands that begin alike (Gemma 3's <unused0> and so
 * on), so they are not tried one after another: for each size that tokens have, the text of that size is looked up. */
struct ah_text_added_size {
    size_t size;
    bool begins[256]; /* by byte: a token of this size begins with it */
};
struct ah_text_added_index {
    struct ah_text_vocabulary tokens; /* the id is the place in `added` */
    struct ah_text_added_size *sizes; /* in arena; the longest first */
    size_t n_sizes;
};

/* Finds the first added token in text[from, size): the leftmost, the longest of those. `normalized` says which kind. */
struct ah_text_found {
    const struct ah_text_added *token; /* NULL: none */
    size_t begin, end;                 /* with the spaces that it strips */
};

/* ---- words.c ---- */

enum ah_text_split_kind { AH_TEXT_SPLIT_PATTERN, AH_TEXT_SPLIT_BYTES, AH_TEXT_SPLIT_METASPACE };

struct ah_text_pattern; /* a compiled pattern */

/* What becomes of the parts that a pattern cuts out: words of their own, nothing, or ends of the words before them. */
enum ah_text_behavior { AH_TEXT_ISOLATED, AH_TEXT_REMOVED, AH_TEXT_MERGED_WITH_PREVIOUS };

/* A step of splitting. */
struct ah_text_split {
    enum ah_text_split_kind kind;
    struct ah_text_pattern *pattern; /* owned; NULL: none */
    enum ah_text_behavior behavior;  /* of a pattern */
    bool inverted;                   /* the pattern cuts out what it does not match */
    bool adds_space;                 /* before a text that does not begin with one */
    bool only_first;                 /* metaspace: only before the first text */
    bool splits;                     /* metaspace: at each replacement */
};

enum { AH_TEXT_SPLITS_MAX = 8, AH_TEXT_NORMALS_MAX = 8 };

/* ---- normal_form.c ---- */

enum ah_text_normal_kind { AH_TEXT_NORMAL_NFC, AH_TEXT_NORMAL_PREPEND, AH_TEXT_NORMAL_REPLACE };

struct ah_text_normal {
    enum ah_text_normal_kind kind;
    struct ah_text_piece from, to; /* replace: all of `from`; prepend: `to` */
};

/* ---- the tokenizer ---- */

struct ah_text_tokenizer {
    struct ah_arena arena;
    struct ah_text_vocabulary vocabulary;
    struct ah_text_merges merges;
    struct ah_text_added *added; /* longest first */
    size_t n_added;
    bool begins[256];                            /* by byte: an added token begins with it */
    struct ah_text_added_index added_by_text[2]; /* by `normalized` */
    struct ah_text_normal normals[AH_TEXT_NORMALS_MAX];
    size_t n_normals;
    struct ah_text_split splits[AH_TEXT_SPLITS_MAX];
    size_t n_splits;
    bool on_bytes;            /* words are bytes, spelled as letters */
    bool byte_fallback;       /* what no piece has becomes bytes */
    bool fuses_unknown;       /* unknown characters beside each other are one token */
    bool whole_words;         /* a word that is a piece is not merged */
    uint32_t unknown;         /* AH_TEXT_NONE: unknown characters are left out */
    uint32_t byte_ids[256];   /* byte_fallback: by byte */
    uint32_t letter_ids[256]; /* on_bytes: by byte */
    uint64_t largest;         /* id + 1 */
    uint32_t first;           /* the special token before a text; AH_TEXT_NONE: there is none */
    bool no_memory;           /* a text of the file could not be kept */
};

/* Makes the index of the added tokens, which are sorted then. Returns false if there is no memory. */
bool ah_text_added_index(struct ah_text_tokenizer *tokenizer);

struct ah_text_found ah_text_added_find(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text,
                                        size_t from, bool normalized);

/* Appends the normal form. */
int ah_text_normalize(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text,
                      struct ah_buffer *out, struct ah_error *err);

/* Calls `take` for each word of a text. `first`: the text is at the beginning of what is encoded. */
typedef int ah_text_take(void *context, struct ah_text_piece word, struct ah_error *err);
int ah_text_split(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text, bool first,
                  ah_text_take *take, void *context, struct ah_error *err);

/* Compiles a pattern of the tokenizers library, in which \\s means White_Space; or a `literal` text, which matches
 * itself. AH_E_UNSUPPORTED: it is no pattern. */
int ah_text_pattern_new(struct ah_text_pattern **ret_pattern, const char *text, bool literal,
                        struct ah_error *err);
void ah_text_pattern_free(struct ah_text_pattern *pattern);

/* Memory of one encoding. */
struct ah_text_bpe;
int ah_text_bpe_new(struct ah_text_bpe **ret_bpe, struct ah_error *err);
void ah_text_bpe_free(struct ah_text_bpe *bpe);
int ah_text_bpe_word(struct ah_text_bpe *bpe, const struct ah_text_tokenizer *tokenizer,
                     struct ah_text_piece word, struct ah_text_ids *ids, struct ah_error *err);

/* Returns the bytes of the UTF-8 character at `at`, which is whole. */
static inline size_t ah_text_letter(const char *at)
{
    const unsigned char first = (unsigned char)*at;
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

/* Returns the letter that stands for a byte in pieces of words of bytes: itself if it is printable in Latin-1, else
 * U+0100 and so on. Source: bytes_to_unicode() of openai/gpt-2. */
static inline uint32_t ah_text_byte_letter(unsigned char byte)
{
    if ((byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD))
        return byte;
    return byte <= ' ' ? 256u + byte : byte == 0xAD ? 256 + 67 : 256u + 33 + (byte - 127u);
}

#endif
