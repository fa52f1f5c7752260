/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: cuts token files into documents, and these where learning begins.
 */
#include "cli/sample/documents.h"

#include "runtime/train/data/dataset.h"

#include <stdbool.h>

enum { WINDOW = 4096 };

/* A document as it is read: where its learned tokens are, of those kept so far. */
struct reader {
    struct ah_text_ids tokens;
    size_t first, end; /* the first run of learned tokens; first == end: none yet */
    bool ran;          /* the run has ended */
    struct ah_documents_prompt *prompts;
    size_t n, max;
};

/* Keeps the document that has ended as a prompt, if something of it is learned. */
static bool keep(struct reader *reader)
{
    const struct ah_text_ids *tokens = &reader->tokens;
    const size_t half = tokens->n / 2 < AH_DOCUMENTS_TEXT ? tokens->n / 2 : AH_DOCUMENTS_TEXT;
    const size_t first = reader->first > 1 || reader->end <= half ? reader->first : half;
    bool good = true;
    if (reader->end > first && first) {
        struct ah_documents_prompt *prompt = &reader->prompts[reader->n++];
        *prompt = (struct ah_documents_prompt){{0}, {0}};
        for (size_t i = 0; i < reader->end && good; i++)
            good = ah_text_ids_add(i < first ? &prompt->prompt : &prompt->learned, tokens->items[i]);
    }
    reader->tokens.n = reader->first = reader->end = 0;
    reader->ran = false;
    return good;
}

static bool take(struct reader *reader, uint32_t token, bool begins, bool bears)
{
    if (begins && reader->tokens.n && !keep(reader))
        return false;
    if (reader->n == reader->max || reader->tokens.n == AH_DOCUMENTS_MOST)
        return true;
    if (!ah_text_ids_add(&reader->tokens, token))
        return false;
    if (bears && reader->first == reader->end)
        reader->first = reader->tokens.n - 1;
    if (bears && !reader->ran)
        reader->end = reader->tokens.n;
    reader->ran = reader->ran || (!bears && reader->end > reader->first);
    return true;
}

static int read_all(struct ah_dataset *data, struct reader *reader, struct ah_error *err)
{
    const uint64_t tokens = ah_dataset_facts(data)->tokens;
    uint32_t words[WINDOW];
    uint8_t bears[WINDOW], begins[WINDOW];
    const struct ah_dataset_span span = {words, bears, begins};
    bool good = true;
    for (uint64_t first = 0; first < tokens && reader->n < reader->max && good; first += WINDOW) {
        const size_t n = tokens - first < WINDOW ? (size_t)(tokens - first) : WINDOW;
        const int rc = ah_dataset_read(data, first, n, &span, err);
        if (rc)
            return rc;
        for (size_t i = 0; i < n && good && reader->n < reader->max; i++)
            good = take(reader, words[i], begins[i], bears[i]);
    }
    if (good && reader->n < reader->max)
        good = keep(reader);
    return good ? AH_OK : ah_error_memory(err);
}

int ah_documents_find(const char *const *paths, size_t n_paths, uint64_t vocabulary,
                      struct ah_documents_prompt *ret_prompts, size_t max, size_t *ret_n,
                      struct ah_error *err)
{
    struct reader reader = {.prompts = ret_prompts, .max = max};
    struct ah_dataset *data = NULL;
    const struct ah_dataset_options options = {.paths = paths, .n_paths = n_paths, .vocabulary = vocabulary};
    int rc = ah_dataset_open(&data, &options, err);
    rc = rc ? rc : read_all(data, &reader, err);
    *ret_n = reader.n;
    if (!rc && !reader.n)
        rc = ah_error_set(err, AH_E_MISMATCH, "%s: no document has a token that is learned", paths[0]);
    ah_text_ids_release(&reader.tokens);
    ah_dataset_close(data);
    return rc;
}
