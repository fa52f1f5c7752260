/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser reads each word once. Every value is stored by option_store(), whose table has a setter for each kind.
 */
#include "cli/frame/options.h"

#include "base/units.h"
#include "schemas/nearest.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS_MAX = 64 };

static const char *const color_words[] = {"auto", "always", "never", NULL};

const struct ah_option ah_options_common[] = {
    {"json", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct ah_arguments, json),
     "print JSON, errors included, for other programs"},
    {"quiet", 'q', AH_OPTION_FLAG, NULL, NULL, offsetof(struct ah_arguments, quiet),
     "print only results, warnings and errors: no progress, no summary of what was written"},
    {"color", 0, AH_OPTION_WORD, "WHEN", color_words, offsetof(struct ah_arguments, color),
     "colours (default auto: on a terminal, unless NO_COLOR is set)"},
    {"no-progress", 0, AH_OPTION_FLAG, NULL, NULL, offsetof(struct ah_arguments, no_progress),
     "show no progress line on a terminal"},
    {"help", 'h', AH_OPTION_FLAG, NULL, NULL, offsetof(struct ah_arguments, help), "explain this verb"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

struct option_reader {
    const struct ah_option_syntax *syntax;
    const char *const *next; /* the next word to read */
    struct ah_arena *arena;
    void *options;
    struct ah_arguments *arguments;
    struct ah_error *err;
};

/* The row of an option, and the struct that the row's offset refers to. */
struct option_found {
    const struct ah_option *row;
    void *target;
    const char *spelling; /* as typed, for messages: "--device" or "-o" */
};

static size_t list_length(const char *const *words)
{
    size_t n = 0;
    while (words && words[n])
        n++;
    return n;
}

bool ah_options_list_words(const struct ah_option *option)
{
    return option->words && option->kind != AH_OPTION_COUNT && option->kind != AH_OPTION_REAL &&
           option->kind != AH_OPTION_OUTPUT;
}

bool ah_options_is_path(const struct ah_option *option)
{
    return option->kind == AH_OPTION_FILE || option->kind == AH_OPTION_FILES ||
           option->kind == AH_OPTION_OUTPUT || option->kind == AH_OPTION_FOLDER;
}

bool ah_options_repeats(const struct ah_option *option)
{
    return option->kind == AH_OPTION_TEXTS || option->kind == AH_OPTION_FILES;
}

unsigned ah_options_operand_names(const struct ah_operands *operands)
{
    const unsigned most = operands->name && strchr(operands->name, ' ') ? 1 : 2;
    return operands->max < most ? operands->max : most;
}

void ah_options_join(struct ah_buffer *out, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        ah_buffer_printf(out, "%s%s", i ? ", " : "", words[i]);
}

static int store_flag(struct option_reader *reader, const struct option_found *found, const char *text,
                      void *field)
{
    (void)reader, (void)found, (void)text;
    *(bool *)field = true;
    return AH_OK;
}

static int store_text(struct option_reader *reader, const struct option_found *found, const char *text,
                      void *field)
{
    if (!*text)
        return ah_error_set(reader->err, AH_E_USAGE, "'%s' has an empty value; write %s %s", found->spelling,
                            found->spelling, found->row->value);
    *(const char **)field = text;
    return AH_OK;
}

/* Returns the word of the row equal to `text`; NULL: there is none. */
static const char *word_of(const struct ah_option *row, const char *text)
{
    for (size_t i = 0; row->words && row->words[i]; i++)
        if (!strcmp(row->words[i], text))
            return row->words[i];
    return NULL;
}

static int store_bytes(struct option_reader *reader, const struct option_found *found, const char *text,
                       void *field)
{
    struct ah_option_integer *number = field;
    *number = (struct ah_option_integer){.given = true};
    int rc = ah_units_parse_bytes(text, &number->value, reader->err);
    return rc ? ah_error_prefix(reader->err, rc, "'%s'", found->spelling) : AH_OK;
}

/* Appends to the error the words accepted by the option instead of a number. */
static int number_refused(struct option_reader *reader, const struct option_found *found)
{
    struct ah_error *err = reader->err;
    size_t used = err ? strlen(err->text) : 0;
    for (size_t i = 0; err && found->row->words && found->row->words[i]; i++) {
        snprintf(err->text + used, sizeof err->text - used, ", or '%s'", found->row->words[i]);
        used = strlen(err->text);
    }
    return ah_error_prefix(err, AH_E_USAGE, "'%s'", found->spelling);
}

static int store_count(struct option_reader *reader, const struct option_found *found, const char *text,
                       void *field)
{
    struct ah_option_integer *number = field;
    *number = (struct ah_option_integer){.given = true, .word = word_of(found->row, text)};
    if (!number->word && ah_units_parse_count(text, &number->value, reader->err))
        return number_refused(reader, found);
    return AH_OK;
}

static int store_real(struct option_reader *reader, const struct option_found *found, const char *text,
                      void *field)
{
    struct ah_option_real *number = field;
    char *end = NULL;
    *number = (struct ah_option_real){.given = true, .word = word_of(found->row, text)};
    if (number->word)
        return AH_OK;
    errno = 0;
    number->value = strtod(text, &end);
    bool plain = *text && strspn(text, "0123456789.eE+-") == strlen(text) && !*end;
    bool too_small = plain && errno == ERANGE && fabs(number->value) < 1;
    if (plain && !too_small && isfinite(number->value) && number->value >= 0)
        return AH_OK;
    if (too_small)
        return ah_error_set(reader->err, AH_E_USAGE,
                            "'%s': '%s' is too small and would be rounded to 0; write a larger number",
                            found->spelling, text);
    ah_error_set(reader->err, AH_E_USAGE, "'%s' is not a number, 0 or above; write one like '0.5'", text);
    return number_refused(reader, found);
}

static int word_unknown(struct option_reader *reader, const char *what, const char *text,
                        const char *const *words)
{
    const char *near = ah_nearest(text, words, list_length(words));
    struct ah_buffer known = {0};
    ah_options_join(&known, words);
    int rc = known.failed ? ah_error_memory(reader->err)
                          : ah_error_set(reader->err, AH_E_USAGE, "%s: '%s' is not one of %s%s%s%s", what,
                                         text, known.data, near ? "; did you mean '" : "", near ? near : "",
                                         near ? "'?" : "");
    ah_buffer_release(&known);
    return rc;
}

static int store_word(struct option_reader *reader, const struct option_found *found, const char *text,
                      void *field)
{
    const char *word = word_of(found->row, text);
    if (!word)
        return word_unknown(reader, found->spelling, text, found->row->words);
    *(const char **)field = word;
    return AH_OK;
}

static int list_add(struct option_reader *reader, const char ***items, size_t *n, const char *text)
{
    const char **grown = ah_arena_array(reader->arena, *n + 1, sizeof *grown);
    if (!grown)
        return ah_error_memory(reader->err);
    if (*n)
        memcpy(grown, *items, *n * sizeof *grown);
    grown[(*n)++] = text;
    *items = grown;
    return AH_OK;
}

static int store_texts(struct option_reader *reader, const struct option_found *found, const char *text,
                       void *field)
{
    struct ah_option_list *list = field;
    const char *checked = NULL;
    int rc = store_text(reader, found, text, &checked);
    return rc ? rc : list_add(reader, &list->items, &list->n, checked);
}

static int option_store(struct option_reader *reader, const struct option_found *found, const char *text)
{
    static int (*const setters[])(struct option_reader *, const struct option_found *, const char *,
                                  void *) = {
        [AH_OPTION_FLAG] = store_flag,   [AH_OPTION_TEXT] = store_text,   [AH_OPTION_FILE] = store_text,
        [AH_OPTION_BYTES] = store_bytes, [AH_OPTION_COUNT] = store_count, [AH_OPTION_REAL] = store_real,
        [AH_OPTION_WORD] = store_word,   [AH_OPTION_TEXTS] = store_texts, [AH_OPTION_FILES] = store_texts,
        [AH_OPTION_OUTPUT] = store_text, [AH_OPTION_FOLDER] = store_text,
    };
    return setters[found->row->kind](reader, found, text, (char *)found->target + found->row->offset);
}

/* Reads the value of an option with a value: `attached` or, if that is NULL, the next word. */
static int option_value(struct option_reader *reader, const struct option_found *found, const char *attached)
{
    if (!attached) {
        attached = *reader->next;
        if (!attached)
            return ah_error_set(reader->err, AH_E_USAGE, "'%s' needs a value: %s %s", found->spelling,
                                found->spelling, found->row->value);
        reader->next++;
    }
    return option_store(reader, found, attached);
}

static bool row_is(const struct ah_option *row, const char *name, size_t length, char letter)
{
    if (letter)
        return row->letter == letter;
    return strlen(row->name) == length && !memcmp(row->name, name, length);
}

/* Finds an option by name or, if `letter` is not 0, by letter. */
static bool option_find(const struct option_reader *reader, const char *name, size_t length, char letter,
                        struct option_found *ret_found)
{
    const struct ah_option *tables[] = {reader->syntax->options, ah_options_common};
    void *targets[] = {reader->options, reader->arguments};
    for (size_t t = 0; t < 2; t++)
        for (const struct ah_option *row = tables[t]; row && row->name; row++)
            if (row_is(row, name, length, letter)) {
                ret_found->row = row;
                ret_found->target = targets[t];
                return true;
            }
    return false;
}

/* Options of other programs or of other verbs, and what to use instead. */
static const struct {
    const char *names, *instead;
} elsewhere[] = {
    {" learning-rate ", "set the learning rate with '--lr' X of 'run'"},
    {" lr-scheduler lr-scheduler-type ",
     "'--schedule' of 'run' sets how the learning rate falls: cosine or constant"},
    {" warmup-steps warmup-ratio warmup-iters ", "set the warm-up with '--warmup' N of 'run', in steps"},
    {" max-steps num-steps iters max-iters ", "set the number of steps with '--steps' N of 'run'"},
    {" epoch num-epochs num-train-epochs ", "'--epochs' X of 'run' sets how often a run goes through the "
                                            "data"},
    {" train-file train-data dataset data-path data-dir ", "name the data with '--data' FILE of 'run'"},
    {" eval-data eval-file val validation val-data ", "name held-out data with '--valid' FILE of 'run'"},
    {" output-dir out-dir save-dir checkpoint-dir ", "name the folder for checkpoints with '--save' DIR of "
                                                     "'run'"},
    {" save-steps ", "'--save-every' N of 'run' also saves during the run"},
    {" init-from pretrained checkpoint ckpt ",
     "'--weights' DIR of 'run' begins with given weights, '--resume' DIR continues a run"},
    {" adam-beta1 adam-beta2 beta1 beta2 ", "set both with '--betas' B1,B2 of 'run'"},
    {" optim optimizer ", "the optimizer is AdamW: '--betas', '--epsilon' and '--weight-decay' of 'run'"},
    {" model model-name-or-path ", "a plan holds its model: 'autohete plan MODEL' makes one"},
    {" batch batch-size micro-batch-size per-device-train-batch-size ",
     "the plan fixes the batch: '--batch' N of 'plan'"},
    {" micro-batches accumulate gradient-accumulation-steps ",
     "'--micro-batches' N of 'plan' cuts a batch into parts whose gradients are added"},
    {" seq seq-len seq-length block-size context-length max-seq-length max-length ",
     "the plan fixes the sequence length: '--seq' N of 'plan'"},
    {" dtype bf16 fp16 fp32 precision mixed-precision torch-dtype ",
     "the plan fixes the number format: '--dtype' bf16 or fp32 of 'plan'; there is no fp16"},
    {" clip grad-clip max-grad-norm clip-grad-norm ", "the plan fixes clipping: '--clip' X of 'plan'"},
    {" freeze trainable ", "the plan fixes what is trained: '--freeze' PATTERNS of 'plan'"},
    {" lora lora-r lora-rank lora-alpha lora-dropout qlora peft use-peft ",
     "the plan has adapters: '--lora' rank=N,alpha=X of 'plan'; there is no dropout and no quantised base"},
    {" load-in-4bit load-in-8bit quantize quantization ",
     "weights are trained in bf16 or fp32 ('--dtype' of 'plan'), never quantised"},
    {" gradient-checkpointing activation-checkpointing recompute offload cpu-offload deepspeed fsdp zero "
     "zero-stage ",
     "'plan' decides what is recomputed and what stays on the host; its '--policy' plans as another system "
     "would"},
    {" machine device-memory host-memory state-dtype policy scheduling ", "it is an option of 'plan'"},
    {" gpus num-gpus nproc-per-node world-size ", "for GPUs of several nodes, use '--cluster' FILE of "
                                                  "'plan'"},
};

bool ah_options_lists(const char *names, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = names; length && (at = strchr(at, ' ')) && *++at;) {
        size_t i = 0;
        while (i < length && at[i] == (name[i] == '_' ? '-' : name[i]))
            i++;
        if (i == length && at[i] == ' ')
            return true;
    }
    return false;
}

static int option_unknown(struct option_reader *reader, const char *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (ah_options_lists(elsewhere[i].names, name))
            return ah_error_set(reader->err, AH_E_USAGE, "unknown option '--%s': %s", name,
                                elsewhere[i].instead);
    const char *names[OPTIONS_MAX];
    size_t n = 0;
    const struct ah_option *tables[] = {reader->syntax->options, ah_options_common};
    for (size_t t = 0; t < 2; t++)
        for (const struct ah_option *row = tables[t]; row && row->name && n < OPTIONS_MAX; row++)
            names[n++] = row->name;
    const char *near = ah_nearest(name, names, n);
    return ah_error_set(reader->err, AH_E_USAGE, "unknown option '--%s'%s%s%s", name,
                        near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
}

/* Reads an option given as "--name" or "--name=value". */
static int read_long(struct option_reader *reader, const char *word)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const char *spelling = ah_arena_strndup(reader->arena, word, length + 2);
    if (!spelling)
        return ah_error_memory(reader->err);
    struct option_found found = {.spelling = spelling};
    if (!option_find(reader, name, length, 0, &found))
        return option_unknown(reader, spelling + 2);
    if (found.row->kind != AH_OPTION_FLAG)
        return option_value(reader, &found, equals ? equals + 1 : NULL);
    if (equals)
        return ah_error_set(reader->err, AH_E_USAGE, "'%s' takes no value", spelling);
    return option_store(reader, &found, "");
}

/* Reads an option given as "-x" or, with its value, as "-xVALUE". */
static int read_short(struct option_reader *reader, const char *word)
{
    const char *spelling = ah_arena_strndup(reader->arena, word, 2);
    if (!spelling)
        return ah_error_memory(reader->err);
    struct option_found found = {.spelling = spelling};
    if (!option_find(reader, NULL, 0, word[1], &found) || (found.row->kind == AH_OPTION_FLAG && word[2]))
        return ah_error_set(reader->err, AH_E_USAGE, "unknown option '%s'", word);
    if (found.row->kind != AH_OPTION_FLAG)
        return option_value(reader, &found, word[2] ? word + 2 : NULL);
    return option_store(reader, &found, "");
}

/* True if an option takes patterns. If a pattern is not quoted, the shell makes operands of all but its first file. */
static bool takes_patterns(const struct ah_option *options)
{
    for (; options && options->name; options++)
        if (options->kind == AH_OPTION_FILES && !strcmp(options->name, "data"))
            return true;
    return false;
}

static int check_operands(struct option_reader *reader)
{
    const struct ah_operands *operands = &reader->syntax->operands;
    const struct ah_arguments *arguments = reader->arguments;
    if (arguments->n_operands > operands->max)
        return ah_error_set(
            reader->err, AH_E_USAGE, "'%s' is an extra argument%s", arguments->operands[operands->max],
            takes_patterns(reader->syntax->options) ? "; a pattern needs quotes, as in --data 'train-*'"
                                                    : "");
    if (arguments->n_operands < operands->min)
        return ah_error_set(reader->err, AH_E_USAGE, "%s is missing", operands->name);
    for (size_t i = 0; operands->kind == AH_OPERAND_WORD && i < arguments->n_operands; i++) {
        bool known = false;
        for (size_t k = 0; operands->words[k]; k++)
            known = known || !strcmp(operands->words[k], arguments->operands[i]);
        if (!known)
            return word_unknown(reader, operands->name, arguments->operands[i], operands->words);
    }
    return AH_OK;
}

int ah_options_parse(const struct ah_option_syntax *syntax, const char *const *words, struct ah_arena *arena,
                     void *ret_options, struct ah_arguments *ret_arguments, struct ah_error *err)
{
    struct option_reader reader = {syntax, words, arena, ret_options, ret_arguments, err};
    bool only_operands = false;
    int rc = AH_OK;
    while (!rc && *reader.next) {
        const char *word = *reader.next++;
        if (only_operands || word[0] != '-' || !word[1])
            rc = list_add(&reader, &ret_arguments->operands, &ret_arguments->n_operands, word);
        else if (!strcmp(word, "--"))
            only_operands = true;
        else
            rc = word[1] == '-' ? read_long(&reader, word) : read_short(&reader, word);
    }
    if (!rc && !ret_arguments->help)
        rc = check_operands(&reader);
    return rc;
}
