/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits text into words. A pattern cuts out its matches, or, inverted, what lies between them. What is cut out becomes
 * words of its own, is removed, or ends the word before it. Everything else becomes words.
 *
 * Patterns are Oniguruma's in the library, PCRE2's here. They agree but for \s: there it is White_Space, here it would
 * also have U+180E, so it is spelled out. JIT is not needed for the result; where there is none, matching is slower.
 *
 * Source: Split, ByteLevel and Metaspace of huggingface/tokenizers.
 */
#include "runtime/text/text_internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* White_Space, inside a class. */
#define SPACES                                                                                               \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
    "3000}"

struct ah_text_pattern {
    pcre2_code *code;
};

/* ---- patterns ---- */

/* Spells out \s and \S. Returns false for \S in a class, which would be the rest of all characters. */
static bool spell_spaces(const char *text, struct ah_buffer *out)
{
    bool in_class = false;
    for (; *text; text++) {
        if (*text == '\\' && (text[1] == 's' || text[1] == 'S')) {
            if (in_class && text[1] == 'S')
                return false;
            ah_buffer_puts(out, in_class ? SPACES : text[1] == 's' ? "[" SPACES "]" : "[^" SPACES "]");
            text++;
            continue;
        }
        if (*text == '\\' && text[1]) {
            ah_buffer_append(out, text++, 1);
        } else if (*text == '[') {
            in_class = true;
        } else if (*text == ']') {
            in_class = false;
        }
        ah_buffer_append(out, text, 1);
    }
    return true;
}

int ah_text_pattern_new(struct ah_text_pattern **ret_pattern, const char *text, bool literal,
                        struct ah_error *err)
{
    const uint32_t options = literal ? PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_LITERAL
                                     : PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
    struct ah_buffer spelled = {0};
    int number = 0;
    PCRE2_SIZE at = 0;
    struct ah_text_pattern *pattern = calloc(1, sizeof *pattern);
    bool known = true;
    if (literal)
        ah_buffer_puts(&spelled, text);
    else
        known = spell_spaces(text, &spelled);
    int rc = pattern && !spelled.failed ? AH_OK : ah_error_memory(err);
    if (!rc && known)
        pattern->code = pcre2_compile((PCRE2_SPTR)spelled.data, spelled.size, options, &number, &at, NULL);
    if (!rc && !pattern->code)
        rc = ah_error_set(err, AH_E_UNSUPPORTED, "the pattern '%.200s' is not supported", text);
    ah_buffer_release(&spelled);
    if (rc) {
        free(pattern);
        return rc;
    }
    (void)pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE);
    *ret_pattern = pattern;
    return AH_OK;
}

void ah_text_pattern_free(struct ah_text_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

/* ---- splitting ---- */

/* The rest of the steps for a text. */
struct splitting {
    const struct ah_text_tokenizer *tokenizer;
    size_t step;
    bool first;
    ah_text_take *take;
    void *context;
    struct ah_error *err;
};

static int split_by(const struct splitting *splitting, struct ah_text_piece text);

static int hand_on(const struct splitting *splitting, struct ah_text_piece text)
{
    struct splitting rest = *splitting;
    rest.step++;
    rest.first = false;
    return text.size ? split_by(&rest, text) : AH_OK;
}

/* Finds the next match. The stack of JIT code is small; where it does not suffice, the interpreter uses the heap. */
static int find_match(const struct ah_text_pattern *pattern, struct ah_text_piece text, size_t from,
                      pcre2_match_data *match)
{
    const int found =
        pcre2_match(pattern->code, (PCRE2_SPTR)text.at, text.size, from, PCRE2_NO_UTF_CHECK, match, NULL);
    return found == PCRE2_ERROR_JIT_STACKLIMIT
               ? pcre2_match(pattern->code, (PCRE2_SPTR)text.at, text.size, from,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match, NULL)
               : found;
}

static int fail_match(int found, struct ah_error *err)
{
    PCRE2_UCHAR8 why[128] = "";
    pcre2_get_error_message(found, why, sizeof why);
    return ah_error_set(err, AH_E_FAILED,
                        "the tokenizer's pattern fails on this text (%s); split it into shorter documents",
                        (const char *)why);
}

/* A text while a pattern splits it. */
struct cutting {
    const struct splitting *splitting;
    const struct ah_text_split *split;
    struct ah_text_piece held; /* AH_TEXT_MERGED_WITH_PREVIOUS: the last word, which may get an end */
    bool after_cut;            /* the last part was cut out */
};

/* Takes the next part of the text, a match or what lies between two. Of parts that are cut out one after another, only
 * the first ends the word before it. */
static int take_part(struct cutting *cutting, struct ah_text_piece part, bool matches)
{
    const bool cut = matches != cutting->split->inverted;
    if (!part.size)
        return AH_OK;
    if (cutting->split->behavior == AH_TEXT_ISOLATED)
        return hand_on(cutting->splitting, part);
    if (cutting->split->behavior == AH_TEXT_REMOVED)
        return cut ? AH_OK : hand_on(cutting->splitting, part);
    if (cut && !cutting->after_cut && cutting->held.size) {
        cutting->held.size += part.size;
        cutting->after_cut = true;
        return AH_OK;
    }
    const struct ah_text_piece done = cutting->held;
    cutting->held = part;
    cutting->after_cut = cut;
    return hand_on(cutting->splitting, done);
}

static int split_pattern(const struct splitting *splitting, const struct ah_text_split *split,
                         struct ah_text_piece text)
{
    struct cutting cutting = {.splitting = splitting, .split = split};
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(split->pattern->code, NULL);
    size_t done = 0, from = 0;
    int rc = match ? AH_OK : ah_error_memory(splitting->err);
    while (!rc && from < text.size) {
        const int found = find_match(split->pattern, text, from, match);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0) {
            rc = fail_match(found, splitting->err);
            break;
        }
        const PCRE2_SIZE *place = pcre2_get_ovector_pointer(match);
        if (place[1] == place[0]) { /* an empty match is none */
            from = place[1] < text.size ? place[1] + ah_text_letter(text.at + place[1]) : text.size;
            continue;
        }
        rc = take_part(&cutting, (struct ah_text_piece){text.at + done, place[0] - done}, false);
        rc = rc ? rc
                : take_part(&cutting, (struct ah_text_piece){text.at + place[0], place[1] - place[0]}, true);
        done = from = place[1];
    }
    pcre2_match_data_free(match);
    rc = rc ? rc : take_part(&cutting, (struct ah_text_piece){text.at + done, text.size - done}, false);
    return rc ? rc : hand_on(splitting, cutting.held);
}

/* U+2581, which stands for a space. */
static const char metaspace[] = "\xE2\x96\x81";
enum { METASPACE = sizeof metaspace - 1 };

static bool is_metaspace(struct ah_text_piece text, size_t at)
{
    return text.size - at >= METASPACE && memcmp(text.at + at, metaspace, METASPACE) == 0;
}

/* Splits before each replacement. */
static int split_metaspace(const struct splitting *splitting, bool splits, struct ah_text_piece text)
{
    size_t begin = 0;
    int rc = AH_OK;
    for (size_t at = 1; at < text.size && splits && !rc; at++)
        if (is_metaspace(text, at)) {
            rc = hand_on(splitting, (struct ah_text_piece){text.at + begin, at - begin});
            begin = at;
        }
    return rc ? rc : hand_on(splitting, (struct ah_text_piece){text.at + begin, text.size - begin});
}

static int replace_spaces(const struct splitting *splitting, const struct ah_text_split *split,
                          struct ah_text_piece text)
{
    struct ah_buffer replaced = {0};
    const bool begins = is_metaspace(text, 0) || text.at[0] == ' ';
    if (split->adds_space && !begins && (splitting->first || !split->only_first))
        ah_buffer_append(&replaced, metaspace, METASPACE);
    for (size_t i = 0; i < text.size; i++)
        ah_buffer_append(&replaced, text.at[i] == ' ' ? metaspace : text.at + i,
                         text.at[i] == ' ' ? METASPACE : 1);
    int rc = replaced.failed ? ah_error_memory(splitting->err)
                             : split_metaspace(splitting, split->splits,
                                               (struct ah_text_piece){replaced.data, replaced.size});
    ah_buffer_release(&replaced);
    return rc;
}

static int split_bytes(const struct splitting *splitting, const struct ah_text_split *split,
                       struct ah_text_piece text)
{
    struct ah_buffer spaced = {0};
    if (split->adds_space && text.at[0] != ' ') {
        ah_buffer_puts(&spaced, " ");
        ah_buffer_append(&spaced, text.at, text.size);
        text = (struct ah_text_piece){spaced.data, spaced.size};
    }
    int rc = spaced.failed    ? ah_error_memory(splitting->err)
             : split->pattern ? split_pattern(splitting, split, text)
                              : hand_on(splitting, text);
    ah_buffer_release(&spaced);
    return rc;
}

static int split_by(const struct splitting *splitting, struct ah_text_piece text)
{
    if (splitting->step == splitting->tokenizer->n_splits)
        return splitting->take(splitting->context, text, splitting->err);
    const struct ah_text_split *split = &splitting->tokenizer->splits[splitting->step];
    switch (split->kind) {
    case AH_TEXT_SPLIT_PATTERN:
        return split_pattern(splitting, split, text);
    case AH_TEXT_SPLIT_BYTES:
        return split_bytes(splitting, split, text);
    case AH_TEXT_SPLIT_METASPACE:
        break;
    }
    return replace_spaces(splitting, split, text);
}

int ah_text_split(const struct ah_text_tokenizer *tokenizer, struct ah_text_piece text, bool first,
                  ah_text_take *take, void *context, struct ah_error *err)
{
    const struct splitting splitting = {tokenizer, 0, first, take, context, err};
    return text.size ? split_by(&splitting, text) : AH_OK;
}
