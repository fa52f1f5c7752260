/* SPDX-License-Identifier: Apache-2.0
 *
 * Added tokens are found before anything else: the leftmost, the longest of those.
 *
 * Source: AddedVocabulary::find_matches() of huggingface/tokenizers.
 */
#include "runtime/text/text_internal.h"

#include <string.h>
#include <utf8proc.h>

static uint32_t letter_at(const char *at)
{
    utf8proc_int32_t letter = 0;
    utf8proc_iterate((const utf8proc_uint8_t *)at, (utf8proc_ssize_t)ah_text_letter(at), &letter);
    return (uint32_t)letter;
}

/* White_Space, as char::is_whitespace() of Rust. */
static bool is_space(uint32_t letter)
{
    return (letter >= 9 && letter <= 13) || letter == 0x20 || letter == 0x85 || letter == 0xA0 ||
           letter == 0x1680 || (letter >= 0x2000 && letter <= 0x200A) || letter == 0x2028 ||
           letter == 0x2029 || letter == 0x202F || letter == 0x205F || letter == 0x3000;
}

/* True for a character of words, as \w of Rust's regular expressions: Alphabetic, marks, decimal digits, connectors,
 * joiners. Alphabetic are letters, numbers that are letters, and some circled letters. */
static bool is_of_word(uint32_t letter)
{
    static const uint32_t of_words =
        1u << UTF8PROC_CATEGORY_LU | 1u << UTF8PROC_CATEGORY_LL | 1u << UTF8PROC_CATEGORY_LT |
        1u << UTF8PROC_CATEGORY_LM | 1u << UTF8PROC_CATEGORY_LO | 1u << UTF8PROC_CATEGORY_MN |
        1u << UTF8PROC_CATEGORY_MC | 1u << UTF8PROC_CATEGORY_ME | 1u << UTF8PROC_CATEGORY_ND |
        1u << UTF8PROC_CATEGORY_NL | 1u << UTF8PROC_CATEGORY_PC;
    return of_words >> utf8proc_category((utf8proc_int32_t)letter) & 1 || letter == 0x200C ||
           letter == 0x200D || (letter >= 0x24B6 && letter <= 0x24E9) ||
           (letter >= 0x1F130 && letter <= 0x1F149) || (letter >= 0x1F150 && letter <= 0x1F169) ||
           (letter >= 0x1F170 && letter <= 0x1F189);
}

static size_t letter_before(const char *text, size_t at)
{
    do
        at--;
    while (((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static bool stands_alone(struct ah_text_piece text, size_t begin, size_t end)
{
    return (!begin || !is_of_word(letter_at(text.at + letter_before(text.at, begin)))) &&
           (end == text.size || !is_of_word(letter_at(text.at + end)));
}

static bool index_kind(struct ah_text_tokenizer *tokenizer, bool normalized)
{
    struct ah_text_added_index *index = &tokenizer->added_by_text[normalized];
    struct ah_arena *arena = &tokenizer->arena;
    size_t n = 0, size = 0;
    for (size_t i = 0; i < tokenizer->n_added; i++)
        if (tokenizer->added[i].normalized == normalized && tokenizer->added[i].text.size != size) {
            size = tokenizer->added[i].text.size;
            n++;
        }
    index->sizes = ah_arena_array(arena, n + 1, sizeof *index->sizes);
    if (!index->sizes || !ah_text_vocabulary_init(&index->tokens, arena, tokenizer->n_added))
        return false;
    for (size_t i = 0; i < tokenizer->n_added; i++) {
        const struct ah_text_added *token = &tokenizer->added[i];
        if (token->normalized != normalized)
            continue;
        if (!index->n_sizes || index->sizes[index->n_sizes - 1].size != token->text.size)
            index->sizes[index->n_sizes++] = (struct ah_text_added_size){.size = token->text.size};
        index->sizes[index->n_sizes - 1].begins[(unsigned char)*token->text.at] = true;
        if (ah_text_vocabulary_find(&index->tokens, token->text) == AH_TEXT_NONE) /* the least id */
            ah_text_vocabulary_add(&index->tokens, token->text, (uint32_t)i);
    }
    return true;
}

bool ah_text_added_index(struct ah_text_tokenizer *tokenizer)
{
    return index_kind(tokenizer, false) && index_kind(tokenizer, true);
}

/* Returns the longest token at `at`. */
static const struct ah_text_added *token_at(const struct ah_text_tokenizer *tokenizer,
                                            struct ah_text_piece text, size_t at, bool normalized)
{
    const struct ah_text_added_index *index = &tokenizer->added_by_text[normalized];
    const unsigned char first = (unsigned char)text.at[at];
    for (size_t i = 0; i < index->n_sizes && tokenizer->begins[first]; i++) {
        const struct ah_text_added_size *of = &index->sizes[i];
        if (!of->begins[first] || of->size > text.size - at)
            continue;
        const struct ah_text_piece piece = {text.at + at, of->size};
        const uint32_t found = ah_text_vocabulary_find(&index->tokens, piece);
        if (found != AH_TEXT_NONE)
            return &tokenizer->added[found];
    }
    return NULL;
}

struct ah_text_found ah_text_added_find(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text,
                                        size_t from, bool normalized)
{
    for (size_t at = from; at < text.size;) {
        const struct ah_text_added *token = token_at(tokenizer, text, at, normalized);
        if (!token) {
            at++;
            continue;
        }
        struct ah_text_found found = {token, at, at + token->text.size};
        if (token->single_word && !stands_alone(text, found.begin, found.end)) {
            at = found.end;
            continue;
        }
        while (token->strips_left && found.begin > from &&
               is_space(letter_at(text.at + letter_before(text.at, found.begin))))
            found.begin = letter_before(text.at, found.begin);
        while (token->strips_right && found.end < text.size && is_space(letter_at(text.at + found.end)))
            found.end += ah_text_letter(text.at + found.end);
        return found;
    }
    return (struct ah_text_found){NULL, text.size, text.size};
}
