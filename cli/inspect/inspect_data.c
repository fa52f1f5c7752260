/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows data without a model, so the vocabulary is unknown. Data are read as tokens of a 16-bit vocabulary or, if that
 * fails, of a larger one. Text, and token files in which tokens are bytes, are read as bytes and shown as text.
 */
#include "cli/inspect/inspect_data.h"

#include "cli/frame/emit.h"
#include "cli/frame/interrupt.h"
#include "cli/inspect/inspect.h"
#include "cli/inspect/inspect_inputs.h"
#include "runtime/model/tokenizer.h"
#include "runtime/train/checkpoint/checkpoint_folder.h"
#include "runtime/train/data/dataset.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NARROW_VOCABULARY = 1 << 16,
    ANY_VOCABULARY = 1 << 20,
    WINDOW = 65536,
    SAMPLE_TOKENS = 48,
    SAMPLE_BYTES = 320,
    SAMPLES = 3,
    LENGTHS = 1 << 16
};

/* Lengths of documents with learned tokens. */
struct lengths {
    uint64_t documents, tokens, longest;
    uint64_t *of; /* (LENGTHS): documents of that many tokens; the last: more */
};

struct viewer {
    struct ah_cli *cli;
    struct ah_emit emit;
    struct ah_dataset *data;
    const struct ah_dataset_facts *facts;
    bool bytes;                    /* tokens are bytes of text */
    struct ah_tokenizer tokenizer; /* if it is empty, ids are shown */
    uint32_t *tokens;              /* room for WINDOW tokens */
    uint8_t *bears;
    uint8_t *begins;
    struct lengths lengths;
    struct ah_mix mix; /* in the arena of cli */
};

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, F_OK) == 0;
}

/* True if the file has lines of JSON and is not a run log (whose lines begin with their kind). */
static bool is_lines_of_data(const char *path)
{
    char first[64] = "";
    const size_t length = strlen(path);
    FILE *file = length > 6 && strcmp(path + length - 6, ".jsonl") == 0 ? fopen(path, "r") : NULL;
    if (!file)
        return false;
    const size_t n = fread(first, 1, sizeof first - 1, file);
    (void)fclose(file);
    return n > 0 && !strstr(first, "\"kind\"");
}

bool ah_inspect_data_is(const char *word)
{
    static const char *const endings[] = {".bin", ".u16", ".u32", ".txt"};
    static const char *const others[] = {"config.json", AH_CHECKPOINT_MANIFEST, "adapter_config.json",
                                         "params.json", "pytorch_model.bin"};
    struct stat about;
    const size_t length = strlen(word);
    if (stat(word, &about))
        return strpbrk(word, "*?[") != NULL;
    bool found = S_ISDIR(about.st_mode);
    for (size_t i = 0; i < sizeof others / sizeof *others && found; i++)
        found = !has_file(word, others[i]);
    for (size_t i = 0; i < sizeof endings / sizeof *endings && !found; i++)
        found = length > 4 && strcmp(word + length - 4, endings[i]) == 0;
    return found || (S_ISREG(about.st_mode) && is_lines_of_data(word));
}

static bool show_progress(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    ah_terminal_draw(context, total_bytes ? (double)done_bytes / (double)total_bytes : 1, "checking data");
    return !ah_interrupt_seen();
}

static int open_data(struct viewer *viewer, const char *word, const char *format, struct ah_error *err)
{
    static const uint64_t vocabularies[] = {NARROW_VOCABULARY, ANY_VOCABULARY, AH_DATASET_BYTE_VOCABULARY};
    struct ah_progress progress = ah_terminal_progress();
    struct ah_dataset_options options = {.paths = &word,
                                         .n_paths = 1,
                                         .format = format ? ah_dataset_format_of(format) : AH_DATASET_AUTO,
                                         .progress = show_progress,
                                         .context = &progress};
    struct ah_error last = {0};
    int rc = AH_E_DOCUMENT;
    ah_interrupt_catch();
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies && rc == AH_E_DOCUMENT; i++) {
        options.vocabulary = vocabularies[i];
        rc = ah_dataset_open(&viewer->data, &options, &last);
    }
    ah_terminal_erase(&progress);
    if (rc) {
        *err = last;
        return rc;
    }
    viewer->facts = ah_dataset_facts(viewer->data);
    viewer->bytes = options.vocabulary == AH_DATASET_BYTE_VOCABULARY ||
                    ah_dataset_file(viewer->data, 0)->format == AH_DATASET_BYTES;
    return AH_OK;
}

static int read_window(struct viewer *viewer, uint64_t first, size_t *ret_n, struct ah_error *err)
{
    const uint64_t left = viewer->facts->tokens - first;
    *ret_n = left < WINDOW ? (size_t)left : WINDOW;
    return ah_dataset_read(viewer->data, first, *ret_n,
                           &(struct ah_dataset_span){viewer->tokens, viewer->bears, viewer->begins}, err);
}

/* ---- samples ---- */

/* Appends a byte of text, escaped if it would break the line. */
static void put_byte(struct ah_buffer *text, uint32_t byte)
{
    const char c = (char)byte;
    if (c == '\n' || c == '\r' || c == '\t')
        ah_buffer_puts(text, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    else
        ah_buffer_append(text, &c, 1);
}

static void put_text(struct ah_buffer *text, const struct viewer *viewer, uint32_t token)
{
    const char *piece = viewer->bytes ? NULL : ah_tokenizer_text(&viewer->tokenizer, token);
    if (viewer->bytes)
        put_byte(text, token);
    else if (!piece)
        ah_buffer_printf(text, "<%" PRIu32 ">", token); /* padding, or from another tokenizer */
    for (; piece && *piece; piece++)
        put_byte(text, (unsigned char)*piece);
}

static void put_part(struct viewer *viewer, const uint32_t *tokens, size_t n, bool learned)
{
    struct ah_cli *cli = viewer->cli;
    struct ah_buffer text = {0};
    const bool decoded = viewer->bytes || viewer->tokenizer.n;
    for (size_t i = 0; i < n; i++)
        if (decoded)
            put_text(&text, viewer, tokens[i]);
        else
            ah_buffer_printf(&text, "%s%" PRIu32, i ? " " : "", tokens[i]);
    cli->out.failed = cli->out.failed || text.failed;
    const size_t mark = cli->out.size;
    if (!cli->json)
        ah_buffer_printf(&cli->out, "  %s%s%s%s\n", learned ? cli->out_style.green : cli->out_style.dim,
                         learned ? "learned      " : "not learned  ", cli->out_style.reset,
                         text.data ? ah_cli_clean(cli, text.data) : "");
    ah_cli_fit(cli, mark, 15);
    ah_emit_open(&viewer->emit, NULL, '{');
    ah_emit_bool(&viewer->emit, "learned", learned);
    if (decoded) {
        ah_emit_text(&viewer->emit, "text", text.data ? text.data : "");
    } else {
        ah_emit_open(&viewer->emit, "tokens", '[');
        for (size_t i = 0; i < n; i++)
            ah_emit_integer(&viewer->emit, NULL, tokens[i]);
        ah_emit_close(&viewer->emit);
    }
    ah_emit_close(&viewer->emit);
    ah_buffer_release(&text);
}

/* Shows tokens of the window at `from`, around the first change of the mask if there is one. Sets `ret_end`. */
static int put_sample(struct viewer *viewer, uint64_t from, uint64_t *ret_end, struct ah_error *err)
{
    const size_t length = viewer->bytes ? SAMPLE_BYTES : SAMPLE_TOKENS;
    size_t n = 0, change = 1, start, end;
    int rc = read_window(viewer, from, &n, err);
    if (rc)
        return rc;
    while (change < n && viewer->bears[change] == viewer->bears[0])
        change++;
    start = change < n && change > length / 2 ? change - length / 2 : 0;
    end = n - start < length ? n : start + length;
    char heading[64];
    snprintf(heading, sizeof heading, "from token %" PRIu64, from + start);
    if (!viewer->cli->json)
        ah_inspect_heading(viewer->cli, heading);
    ah_emit_open(&viewer->emit, NULL, '{');
    ah_emit_integer(&viewer->emit, "first_token", from + start);
    ah_emit_open(&viewer->emit, "parts", '[');
    for (size_t i = start, part; i < end; i = part) {
        for (part = i + 1; part < end && viewer->bears[part] == viewer->bears[i];)
            part++;
        put_part(viewer, viewer->tokens + i, part - i, viewer->bears[i]);
    }
    ah_emit_close(&viewer->emit);
    ah_emit_close(&viewer->emit);
    *ret_end = from + end;
    return AH_OK;
}

/* Shows samples from the beginning of the data, and a third and two thirds into it. */
static int put_samples(struct viewer *viewer, struct ah_error *err)
{
    const struct ah_dataset_facts *facts = viewer->facts;
    uint64_t from = 0, end = 0;
    int rc = AH_OK;
    ah_emit_open(&viewer->emit, "samples", '[');
    for (size_t i = 0; i < SAMPLES && from < facts->tokens && !rc; i++) {
        rc = put_sample(viewer, from, &end, err);
        from = facts->tokens / SAMPLES * (i + 1);
        from -= facts->align ? from % facts->align : 0;
        from = from > end ? from : end;
    }
    ah_emit_close(&viewer->emit);
    return rc;
}

/* ---- lengths ---- */

/* A document as it is read. */
struct document {
    uint64_t tokens;
    uint64_t learned; /* tokens up to the last one that is learned */
};

/* Counts the document that ends before token `end`. In aligned data, what is not learned at the end of a sequence is
 * padding. */
static void count_document(struct viewer *viewer, const struct document *document, uint64_t end)
{
    struct lengths *lengths = &viewer->lengths;
    const bool padded = viewer->facts->align && end % viewer->facts->align == 0;
    const uint64_t tokens = padded ? document->learned : document->tokens;
    if (!document->learned)
        return;
    lengths->documents++;
    lengths->tokens += tokens;
    lengths->longest = tokens > lengths->longest ? tokens : lengths->longest;
    lengths->of[tokens < LENGTHS ? tokens : LENGTHS - 1]++;
}

static int count_lengths(struct viewer *viewer, struct ah_error *err)
{
    struct document document = {0};
    uint64_t first = 0;
    int rc = AH_OK;
    for (size_t n; first < viewer->facts->tokens && !rc; first += n) {
        rc = read_window(viewer, first, &n, err);
        for (size_t i = 0; i < n && !rc; i++) {
            if (viewer->begins[i]) {
                count_document(viewer, &document, first + i);
                document = (struct document){0};
            }
            document.tokens++;
            document.learned = viewer->bears[i] ? document.tokens : document.learned;
        }
    }
    if (!rc)
        count_document(viewer, &document, first);
    return rc;
}

/* Returns the least length that this share of documents does not exceed. */
static uint64_t length_of(const struct lengths *lengths, double share)
{
    uint64_t documents = 0, length = 0;
    while (length < LENGTHS - 1 && (double)documents < share * (double)lengths->documents)
        documents += lengths->of[++length];
    return length < LENGTHS - 1 ? length : lengths->longest;
}

static double fill_of(const struct viewer *viewer)
{
    return (double)viewer->lengths.tokens / (double)viewer->facts->tokens;
}

/* ---- counts ---- */

static void put_facts(struct viewer *viewer)
{
    static const char *const kinds[] = {
#define KIND(value, word, text) [value] = text,
        AH_DATASET_FORMATS(KIND)
#undef KIND
    };
    const struct ah_dataset_facts *facts = viewer->facts;
    struct ah_table table = ah_inspect_facts(viewer->cli);
    char text[AH_UNITS_TEXT_MAX];
    ah_table_cell(&table, "data");
    ah_table_cell(&table, "%zu file%s: %s", facts->files, facts->files == 1 ? "" : "s",
                  kinds[ah_dataset_file(viewer->data, 0)->format]);
    ah_table_cell(&table, "tokens");
    ah_table_cell(&table, "%" PRIu64 " (%s)%s", facts->tokens,
                  ah_units_print_count(text, (double)facts->tokens), viewer->bytes ? ", bytes of text" : "");
    ah_table_cell(&table, "documents");
    ah_table_cell(&table, "%" PRIu64, facts->documents);
    ah_table_cell(&table, "unmasked");
    ah_table_cell(&table, "%" PRIu64 ", %.1f %%; not learned: the first token of each document",
                  facts->unmasked, 100 * (double)facts->unmasked / (double)facts->tokens);
    if (facts->documents > 1) {
        ah_table_cell(&table, "lengths");
        ah_table_cell(&table, "median %" PRIu64 ", 95 of 100 up to %" PRIu64 ", longest %" PRIu64 " tokens",
                      length_of(&viewer->lengths, 0.5), length_of(&viewer->lengths, 0.95),
                      viewer->lengths.longest);
    }
    if (facts->align) {
        ah_table_cell(&table, "aligned");
        ah_table_cell(&table, "to sequences of %" PRIu64 " tokens, %.1f %% filled", facts->align,
                      100 * fill_of(viewer));
    }
    ah_table_cell(&table, "sha256");
    ah_table_cell(&table, "%s", facts->sha256);
    ah_table_print(&table, &viewer->cli->out, viewer->cli->out_style, viewer->cli->table_columns);
    if (viewer->mix.n) {
        ah_inspect_heading(viewer->cli, "made of");
        ah_inspect_inputs(viewer->cli, &viewer->mix);
    }
}

static void emit_facts(struct viewer *viewer)
{
    const struct ah_dataset_facts *facts = viewer->facts;
    struct ah_emit *emit = &viewer->emit;
    ah_emit_text(emit, "kind", "data");
    ah_emit_text(emit, "format", ah_dataset_format_word(ah_dataset_file(viewer->data, 0)->format));
    ah_emit_integer(emit, "files", facts->files);
    ah_emit_integer(emit, "tokens", facts->tokens);
    ah_emit_integer(emit, "documents", facts->documents);
    ah_emit_integer(emit, "unmasked", facts->unmasked);
    ah_emit_open(emit, "lengths", '{');
    ah_emit_integer(emit, "documents", viewer->lengths.documents);
    ah_emit_integer(emit, "median", length_of(&viewer->lengths, 0.5));
    ah_emit_integer(emit, "p95", length_of(&viewer->lengths, 0.95));
    ah_emit_integer(emit, "longest", viewer->lengths.longest);
    ah_emit_close(emit);
    if (facts->align) {
        ah_emit_integer(emit, "align", facts->align);
        ah_emit_number(emit, "fill", fill_of(viewer));
    }
    ah_emit_text(emit, "sha256", facts->sha256);
    if (viewer->mix.n)
        ah_inspect_inputs_json(emit, &viewer->mix);
}

/* Reads the inputs beside the first file. */
static int read_inputs(struct viewer *viewer, struct ah_error *err)
{
    struct ah_arena *arena = &viewer->cli->arena;
    const char *path = ah_dataset_file(viewer->data, 0)->path, *slash = strrchr(path, '/');
    const char *folder = slash ? ah_arena_strndup(arena, path, (size_t)(slash - path) + 1) : ".";
    return folder ? ah_mix_load(&viewer->mix, folder, arena, err) : ah_error_memory(err);
}

int ah_inspect_data(struct ah_cli *cli, const char *word, const char *format, const char *tokenizer,
                    struct ah_error *err)
{
    struct viewer viewer = {.cli = cli,
                            .emit = {.out = cli->json ? &cli->out : NULL},
                            .tokens = ah_arena_array(&cli->arena, WINDOW, sizeof(uint32_t)),
                            .bears = ah_arena_array(&cli->arena, WINDOW, 1),
                            .begins = ah_arena_array(&cli->arena, WINDOW, 1),
                            .lengths.of = ah_arena_array(&cli->arena, LENGTHS, sizeof(uint64_t))};
    const bool room = viewer.tokens && viewer.bears && viewer.begins && viewer.lengths.of;
    int rc = room ? open_data(&viewer, word, format, err) : ah_error_memory(err);
    rc = rc ? rc : count_lengths(&viewer, err);
    rc = rc ? rc : read_inputs(&viewer, err);
    if (!rc && tokenizer)
        rc = ah_tokenizer_load(&viewer.tokenizer, tokenizer, err);
    if (!rc) {
        ah_emit_open(&viewer.emit, NULL, '{');
        if (cli->json)
            emit_facts(&viewer);
        else
            put_facts(&viewer);
        rc = put_samples(&viewer, err);
        ah_emit_close(&viewer.emit);
        if (rc)
            ah_buffer_clear(&cli->out);
    }
    ah_tokenizer_release(&viewer.tokenizer);
    ah_dataset_close(viewer.data);
    return rc;
}
