/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads tokenizer.json. Every setting that changes ids is read or refused; `decoder`, `truncation` and `padding` do not
 * matter here. Of special tokens around a text (`post_processor`), only the one before it is known.
 *
 * Source: the serialisations in huggingface/tokenizers.
 */
#include "runtime/text/text_internal.h"

#include "base/file.h"
#include "schemas/cursor.h"
#include "schemas/json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MAX_BYTES = 512 << 20, IDS_MAX = 1 << 24, ADDED_MAX = 1 << 16, NORMAL_MAX_BYTES = 64 };

/* The pattern of ByteLevel with `use_regex`, from GPT-2. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct reading {
    struct ah_text_tokenizer *tokenizer;
    const char *path;
    struct ah_error *err;
};

/* ---- refusals ---- */

static int refuse(const struct reading *reading, const char *what)
{
    return ah_error_set(
        reading->err, AH_E_UNSUPPORTED,
        "%s: %.300s is not supported; make the token files with 'autohete-tokenize', which uses "
        "the tokenizers library",
        reading->path, what);
}

static int refuse_named(const struct reading *reading, const char *what, const char *name)
{
    char text[160];
    snprintf(text, sizeof text, "%s '%.100s'", what, name ? name : "?");
    return refuse(reading, text);
}

static int broken(const struct reading *reading, const char *what)
{
    return ah_error_set(reading->err, AH_E_DOCUMENT, "%s: %s", reading->path, what);
}

/* ---- values ---- */

/* Moves `cursor` to the value of a key of the object at it. Returns false if there is none, or it is null. */
static bool find_key(const struct reading *reading, struct ah_cursor object, const char *key,
                     struct ah_cursor *ret_value)
{
    if (!ah_cursor_enter(&object, '{'))
        return false;
    while (ah_cursor_next(&object, '}')) {
        const char *has = ah_cursor_key(&object, &reading->tokenizer->arena);
        reading->tokenizer->no_memory |= !has;
        if (has && !strcmp(has, key)) {
            *ret_value = object;
            return ah_cursor_peek(&object) != 'n';
        }
        ah_cursor_skip(&object);
    }
    return false;
}

/* Returns the text of a key; NULL if it is no text. */
static const char *text_of(const struct reading *reading, struct ah_cursor object, const char *key)
{
    struct ah_cursor value;
    if (!find_key(reading, object, key, &value) || ah_cursor_peek(&value) != '"')
        return NULL;
    const char *text = ah_cursor_text(&value, &reading->tokenizer->arena);
    reading->tokenizer->no_memory |= !text;
    return text;
}

static bool is_true(const struct reading *reading, struct ah_cursor object, const char *key, bool otherwise)
{
    struct ah_cursor value;
    if (!find_key(reading, object, key, &value))
        return otherwise;
    return ah_cursor_peek(&value) == 't';
}

static struct ah_text_piece piece_of(const char *text)
{
    return (struct ah_text_piece){text, text ? strlen(text) : 0};
}

/* Counts the items of the list or object at the cursor. */
static size_t count_items(struct ah_cursor cursor)
{
    size_t n = 0;
    const char open = ah_cursor_peek(&cursor), close = open == '{' ? '}' : ']';
    if ((open != '{' && open != '[') || !ah_cursor_enter(&cursor, open))
        return 0;
    for (; ah_cursor_next(&cursor, close); n++) {
        if (open == '{') {
            ah_cursor_skip(&cursor); /* the key */
            ah_cursor_peek(&cursor);
            cursor.at++; /* the colon */
        }
        ah_cursor_skip(&cursor);
    }
    return n;
}

/* Calls `read` for each step: of a Sequence, for each of its members (`key`); else for the object itself. */
typedef int read_step(const struct reading *reading, struct ah_cursor step, const char *type);
static int read_steps(const struct reading *reading, struct ah_cursor object, const char *key,
                      read_step *read)
{
    const char *type = text_of(reading, object, "type");
    struct ah_cursor list;
    int rc = AH_OK;
    if (!type)
        return broken(reading, "a step has no type");
    if (strcmp(type, "Sequence") != 0)
        return read(reading, object, type);
    if (!find_key(reading, object, key, &list) || !ah_cursor_enter(&list, '['))
        return broken(reading, "a Sequence has no steps");
    while (!rc && ah_cursor_next(&list, ']')) {
        rc = read_steps(reading, list, key, read);
        ah_cursor_skip(&list);
    }
    return rc;
}

/* ---- normal forms ---- */

static int read_normal(const struct reading *reading, struct ah_cursor step, const char *type)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    struct ah_text_normal *normal = &tokenizer->normals[tokenizer->n_normals];
    struct ah_cursor pattern;
    if (tokenizer->n_normals == AH_TEXT_NORMALS_MAX)
        return refuse(reading, "a normalizer of so many steps");
    if (!strcmp(type, "NFC")) {
        *normal = (struct ah_text_normal){.kind = AH_TEXT_NORMAL_NFC};
    } else if (!strcmp(type, "Prepend")) {
        *normal = (struct ah_text_normal){.kind = AH_TEXT_NORMAL_PREPEND,
                                          .to = piece_of(text_of(reading, step, "prepend"))};
        if (!normal->to.at)
            return broken(reading, "the normalizer 'Prepend' has no text");
    } else if (!strcmp(type, "Replace") && find_key(reading, step, "pattern", &pattern)) {
        *normal = (struct ah_text_normal){.kind = AH_TEXT_NORMAL_REPLACE,
                                          .from = piece_of(text_of(reading, pattern, "String")),
                                          .to = piece_of(text_of(reading, step, "content"))};
        if (!normal->from.size)
            return refuse(reading, "the normalizer 'Replace' with a pattern");
        if (!normal->to.at)
            return broken(reading, "the normalizer 'Replace' has no content");
    } else {
        return refuse_named(reading, "the normalizer", type);
    }
    if (normal->to.size > NORMAL_MAX_BYTES)
        return refuse(reading, "a normalizer that writes more than 64 bytes at once");
    tokenizer->n_normals++;
    return AH_OK;
}

/* ---- words ---- */

static int read_metaspace(const struct reading *reading, struct ah_cursor step, struct ah_text_split *split)
{
    const char *scheme = text_of(reading, step, "prepend_scheme"),
               *letter = text_of(reading, step, "replacement");
    if (!letter || strcmp(letter, "\xE2\x96\x81") != 0)
        return refuse(reading, "the pre-tokenizer 'Metaspace' with another letter than U+2581");
    if (!scheme) /* older files */
        scheme = is_true(reading, step, "add_prefix_space", true) ? "always" : "never";
    split->kind = AH_TEXT_SPLIT_METASPACE;
    split->adds_space = strcmp(scheme, "never") != 0;
    split->only_first = !strcmp(scheme, "first");
    split->splits = is_true(reading, step, "split", true);
    return AH_OK;
}

static int read_bytes(const struct reading *reading, struct ah_cursor step, struct ah_text_split *split)
{
    split->kind = AH_TEXT_SPLIT_BYTES;
    split->adds_space = is_true(reading, step, "add_prefix_space", true);
    reading->tokenizer->on_bytes = true;
    return is_true(reading, step, "use_regex", true)
               ? ah_text_pattern_new(&split->pattern, gpt2_pattern, false, reading->err)
               : AH_OK;
}

static int read_behavior(const struct reading *reading, struct ah_cursor step, enum ah_text_behavior *ret)
{
    static const char *const names[] = {[AH_TEXT_ISOLATED] = "Isolated",
                                        [AH_TEXT_REMOVED] = "Removed",
                                        [AH_TEXT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious"};
    const char *name = text_of(reading, step, "behavior");
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) {
            *ret = (enum ah_text_behavior)i;
            return AH_OK;
        }
    return refuse_named(reading, "the pre-tokenizer 'Split' with the behavior", name);
}

static int read_pattern(const struct reading *reading, struct ah_cursor step, struct ah_text_split *split)
{
    struct ah_cursor pattern;
    const bool there = find_key(reading, step, "pattern", &pattern);
    const char *regex = there ? text_of(reading, pattern, "Regex") : NULL,
               *literal = there ? text_of(reading, pattern, "String") : NULL;
    if (!regex && (!literal || !*literal))
        return refuse(reading, "the pre-tokenizer 'Split' without a pattern");
    split->kind = AH_TEXT_SPLIT_PATTERN;
    split->inverted = is_true(reading, step, "invert", false);
    int rc = read_behavior(reading, step, &split->behavior);
    if (rc)
        return rc;
    rc = ah_text_pattern_new(&split->pattern, regex ? regex : literal, !regex, reading->err);
    return rc ? ah_error_prefix(reading->err, rc, "%s", reading->path) : AH_OK;
}

static int read_split(const struct reading *reading, struct ah_cursor step, const char *type)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    if (tokenizer->n_splits == AH_TEXT_SPLITS_MAX)
        return refuse(reading, "a pre-tokenizer of so many steps");
    if (tokenizer->on_bytes)
        return refuse(reading, "a step after the pre-tokenizer 'ByteLevel'");
    struct ah_text_split *split = &tokenizer->splits[tokenizer->n_splits++];
    *split = (struct ah_text_split){0};
    if (!strcmp(type, "ByteLevel"))
        return read_bytes(reading, step, split);
    if (!strcmp(type, "Metaspace"))
        return read_metaspace(reading, step, split);
    if (!strcmp(type, "Split"))
        return read_pattern(reading, step, split);
    return refuse_named(reading, "the pre-tokenizer", type);
}

/* ---- the model ---- */

static int keep_id(const struct reading *reading, uint64_t id)
{
    if (id >= IDS_MAX)
        return broken(reading, "a token has an id beyond 2^24");
    if (id + 1 > reading->tokenizer->largest)
        reading->tokenizer->largest = id + 1;
    return AH_OK;
}

static int read_vocabulary(const struct reading *reading, struct ah_cursor model)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    struct ah_cursor vocabulary;
    int rc = AH_OK;
    if (!find_key(reading, model, "vocab", &vocabulary) || ah_cursor_peek(&vocabulary) != '{')
        return broken(reading, "model.vocab is missing, or not an object");
    if (!ah_text_vocabulary_init(&tokenizer->vocabulary, &tokenizer->arena, count_items(vocabulary)))
        return ah_error_memory(reading->err);
    ah_cursor_enter(&vocabulary, '{');
    while (!rc && ah_cursor_next(&vocabulary, '}')) {
        uint64_t id = 0;
        const char *piece = ah_cursor_key(&vocabulary, &tokenizer->arena);
        if (!piece)
            return ah_error_memory(reading->err);
        if (!ah_cursor_count(&vocabulary, &id))
            return broken(reading, "model.vocab has an id that is no whole number");
        rc = keep_id(reading, id);
        ah_text_vocabulary_add(&tokenizer->vocabulary, piece_of(piece), (uint32_t)id);
    }
    return rc;
}

/* Reads a merge: "a b", or ["a", "b"]. */
static int read_pair(const struct reading *reading, struct ah_cursor *list, char **ret_left,
                     const char **ret_right)
{
    struct ah_arena *arena = &reading->tokenizer->arena;
    if (ah_cursor_peek(list) == '"') {
        const char *text = ah_cursor_text(list, arena);
        char *copy = text ? ah_arena_strdup(arena, text) : NULL, *space = copy ? strchr(copy, ' ') : NULL;
        if (!copy)
            return ah_error_memory(reading->err);
        if (!space)
            return broken(reading, "model.merges has an entry that is no pair");
        *space = '\0';
        *ret_left = copy;
        *ret_right = space + 1;
        return AH_OK;
    }
    const char *pair[2] = {NULL, NULL};
    size_t n = 0;
    if (!ah_cursor_enter(list, '['))
        return broken(reading, "model.merges has an entry that is no pair");
    while (ah_cursor_next(list, ']')) {
        if (n == 2 || ah_cursor_peek(list) != '"')
            return broken(reading, "model.merges has an entry that is no pair");
        pair[n] = ah_cursor_text(list, arena);
        if (!pair[n++])
            return ah_error_memory(reading->err);
    }
    if (n < 2)
        return broken(reading, "model.merges has an entry that is no pair");
    *ret_left = ah_arena_strdup(arena, pair[0]);
    *ret_right = pair[1];
    return *ret_left ? AH_OK : ah_error_memory(reading->err);
}

static int add_merge(const struct reading *reading, const char *left, const char *right, uint32_t rank)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    const size_t size = strlen(left) + strlen(right);
    char *both = ah_arena_alloc(&tokenizer->arena, size + 1);
    if (!both)
        return ah_error_memory(reading->err);
    snprintf(both, size + 1, "%s%s", left, right);
    const struct ah_text_merge merge = {ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(left)),
                                        ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(right)),
                                        rank,
                                        ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(both))};
    if (merge.left == AH_TEXT_NONE || merge.right == AH_TEXT_NONE || merge.id == AH_TEXT_NONE)
        return broken(reading, "model.merges has a pair of, or into, what is no piece of model.vocab");
    ah_text_merges_add(&tokenizer->merges, &merge);
    return AH_OK;
}

static int read_merges(const struct reading *reading, struct ah_cursor model)
{
    struct ah_cursor merges;
    uint32_t rank = 0;
    int rc = AH_OK;
    if (!find_key(reading, model, "merges", &merges) || ah_cursor_peek(&merges) != '[')
        return broken(reading, "model.merges is missing, or not a list");
    if (!ah_text_merges_init(&reading->tokenizer->merges, &reading->tokenizer->arena, count_items(merges)))
        return ah_error_memory(reading->err);
    ah_cursor_enter(&merges, '[');
    while (!rc && ah_cursor_next(&merges, ']')) {
        char *left = NULL;
        const char *right = NULL;
        rc = read_pair(reading, &merges, &left, &right);
        rc = rc ? rc : add_merge(reading, left, right, rank++);
    }
    return rc;
}

/* Finds the pieces of single bytes: their letters, or "<0x0A>". */
static void find_bytes(struct ah_text_tokenizer *tokenizer)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8], letter[4];
        const uint32_t code = ah_text_byte_letter((unsigned char)byte);
        snprintf(name, sizeof name, "<0x%02X>", byte);
        tokenizer->byte_ids[byte] = ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(name));
        snprintf(letter, sizeof letter, code < 0x80 ? "%c" : "%c%c",
                 code < 0x80 ? (int)code : (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
        tokenizer->letter_ids[byte] = ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(letter));
    }
}

static int read_model(const struct reading *reading, struct ah_cursor root)
{
    static const char *const unset[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    struct ah_cursor model, value;
    if (!find_key(reading, root, "model", &model))
        return broken(reading, "has no model");
    const char *type = text_of(reading, model, "type");
    if (type && strcmp(type, "BPE") != 0)
        return refuse_named(reading, "a model of type", type);
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        if (find_key(reading, model, unset[i], &value) &&
            !(ah_cursor_peek(&value) == '"' && value.at[1] == '"'))
            return refuse_named(reading, "the model's setting", unset[i]);
    int rc = read_vocabulary(reading, model);
    rc = rc ? rc : read_merges(reading, model);
    if (rc)
        return rc;
    const char *unknown = text_of(reading, model, "unk_token");
    tokenizer->unknown =
        unknown ? ah_text_vocabulary_find(&tokenizer->vocabulary, piece_of(unknown)) : AH_TEXT_NONE;
    tokenizer->byte_fallback = is_true(reading, model, "byte_fallback", false);
    tokenizer->fuses_unknown = is_true(reading, model, "fuse_unk", false);
    tokenizer->whole_words = is_true(reading, model, "ignore_merges", false);
    find_bytes(tokenizer);
    return AH_OK;
}

/* ---- added tokens ---- */

static int longest_first(const void *a, const void *b)
{
    const struct ah_text_added *x = a, *y = b;
    return x->text.size != y->text.size ? (x->text.size < y->text.size ? 1 : -1)
           : x->id < y->id              ? -1
                                        : x->id > y->id;
}

static int read_token(const struct reading *reading, struct ah_cursor object, struct ah_text_added *ret_token)
{
    struct ah_cursor value;
    uint64_t id = 0;
    const char *text = text_of(reading, object, "content");
    if (!text || !*text || !find_key(reading, object, "id", &value) || !ah_cursor_count(&value, &id))
        return broken(reading, "an added token has no content or no id");
    *ret_token = (struct ah_text_added){.text = piece_of(text),
                                        .id = (uint32_t)id,
                                        .single_word = is_true(reading, object, "single_word", false),
                                        .strips_left = is_true(reading, object, "lstrip", false),
                                        .strips_right = is_true(reading, object, "rstrip", false),
                                        .normalized = is_true(reading, object, "normalized", false)};
    return keep_id(reading, id);
}

static int read_added(const struct reading *reading, struct ah_cursor root)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    struct ah_cursor list;
    int rc = AH_OK;
    if (!find_key(reading, root, "added_tokens", &list))
        return AH_OK;
    const size_t n = count_items(list);
    if (n > ADDED_MAX)
        return broken(reading, "has more than 65536 added tokens");
    tokenizer->added = ah_arena_array(&tokenizer->arena, n + 1, sizeof *tokenizer->added);
    if (!tokenizer->added)
        return ah_error_memory(reading->err);
    if (!ah_cursor_enter(&list, '['))
        return broken(reading, "added_tokens is not a list");
    while (!rc && ah_cursor_next(&list, ']')) {
        rc = read_token(reading, list, &tokenizer->added[tokenizer->n_added]);
        if (!rc)
            tokenizer->begins[(unsigned char)*tokenizer->added[tokenizer->n_added++].text.at] = true;
        ah_cursor_skip(&list);
    }
    if (tokenizer->n_added)
        qsort(tokenizer->added, tokenizer->n_added, sizeof *tokenizer->added, longest_first);
    return rc;
}

/* Normalized tokens are looked for in normal forms, so their own normal form counts. */
static int normalize_added(const struct reading *reading)
{
    struct ah_text_tokenizer *tokenizer = reading->tokenizer;
    for (size_t i = 0; i < tokenizer->n_added && tokenizer->n_normals; i++) {
        struct ah_text_added *token = &tokenizer->added[i];
        struct ah_buffer normal = {0};
        if (!token->normalized)
            continue;
        int rc = ah_text_normalize(tokenizer, token->text, &normal, reading->err);
        if (!rc && !normal.size) /* it would be found everywhere */
            rc = refuse(reading, "an added token whose normal form is empty");
        const char *text = rc ? NULL : ah_arena_strndup(&tokenizer->arena, normal.data, normal.size);
        token->text = piece_of(text);
        ah_buffer_release(&normal);
        if (!text)
            return rc ? rc : ah_error_memory(reading->err);
        tokenizer->begins[(unsigned char)*text] = true;
    }
    if (tokenizer->n_added)
        qsort(tokenizer->added, tokenizer->n_added, sizeof *tokenizer->added, longest_first);
    return AH_OK;
}

/* Finds the special token that stands before a text. Other steps of a 'post_processor' add none there. */
static int read_template(const struct reading *reading, struct ah_cursor step, const char *type)
{
    struct ah_cursor list, token;
    if (strcmp(type, "TemplateProcessing") != 0 || !find_key(reading, step, "single", &list) ||
        !ah_cursor_enter(&list, '[') || !ah_cursor_next(&list, ']') ||
        !find_key(reading, list, "SpecialToken", &token))
        return AH_OK;
    const char *text = text_of(reading, token, "id");
    reading->tokenizer->first = text ? ah_text_tokenizer_id(reading->tokenizer, text) : AH_TEXT_NONE;
    return AH_OK;
}

/* ---- the file ---- */

static int read_all(const struct reading *reading, const struct ah_buffer *text)
{
    const struct ah_json_source source = {reading->path, text->data, text->size, 1};
    const struct ah_cursor root = {text->data, text->data + text->size};
    struct ah_cursor step;
    int rc = ah_json_scan(&source, reading->err);
    rc = rc ? rc : read_model(reading, root);
    if (!rc && find_key(reading, root, "normalizer", &step))
        rc = read_steps(reading, step, "normalizers", read_normal);
    if (!rc && find_key(reading, root, "pre_tokenizer", &step))
        rc = read_steps(reading, step, "pretokenizers", read_split);
    rc = rc ? rc : read_added(reading, root);
    if (!rc && find_key(reading, root, "post_processor", &step))
        rc = read_steps(reading, step, "processors", read_template);
    rc = rc ? rc : normalize_added(reading);
    if (!rc && !ah_text_added_index(reading->tokenizer))
        rc = ah_error_memory(reading->err);
    return rc;
}

int ah_text_tokenizer_open(struct ah_text_tokenizer **ret_tokenizer, const char *path, struct ah_error *err)
{
    char file[PATH_MAX];
    struct stat about;
    struct ah_buffer text = {0};
    const bool folder = !stat(path, &about) && S_ISDIR(about.st_mode);
    if (snprintf(file, sizeof file, "%s%s", path, folder ? "/tokenizer.json" : "") >= PATH_MAX)
        return ah_error_set(err, AH_E_IO, "%.200s: the name is too long", path);
    struct ah_text_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return ah_error_memory(err);
    const struct reading reading = {tokenizer, file, err};
    tokenizer->first = AH_TEXT_NONE;
    int rc = ah_file_check_regular(file, err);
    rc = rc ? rc : ah_file_read(file, FILE_MAX_BYTES, &text, err);
    rc = rc ? rc : read_all(&reading, &text);
    ah_buffer_release(&text);
    if (tokenizer->no_memory) /* keys that seemed to be missing are not */
        rc = ah_error_memory(err);
    if (rc)
        ah_text_tokenizer_close(tokenizer);
    else
        *ret_tokenizer = tokenizer;
    return rc;
}

void ah_text_tokenizer_close(struct ah_text_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    for (size_t i = 0; i < tokenizer->n_splits; i++)
        ah_text_pattern_free(tokenizer->splits[i].pattern);
    ah_arena_release(&tokenizer->arena);
    free(tokenizer);
}

uint64_t ah_text_tokenizer_vocabulary(const struct ah_text_tokenizer *tokenizer)
{
    return tokenizer->largest;
}

uint32_t ah_text_tokenizer_id(const struct ah_text_tokenizer *tokenizer, const char *text)
{
    const struct ah_text_piece piece = piece_of(text);
    for (size_t i = 0; i < tokenizer->n_added; i++)
        if (tokenizer->added[i].text.size == piece.size &&
            !memcmp(tokenizer->added[i].text.at, text, piece.size))
            return tokenizer->added[i].id;
    return ah_text_vocabulary_find(&tokenizer->vocabulary, piece);
}

uint32_t ah_text_tokenizer_first(const struct ah_text_tokenizer *tokenizer)
{
    return tokenizer->first;
}
