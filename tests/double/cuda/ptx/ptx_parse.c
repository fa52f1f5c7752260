/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses text to instructions. Knows the part of PTX's grammar that nvcc writes. Outside of entries, only dynamic
 * shared memory matters. A register is a class and a number; classes follow one another.
 *
 * Source: PTX ISA, "Syntax", "State Spaces, Types, and Variables".
 */
#include "tests/double/cuda/ptx/ptx_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 16, SCOPED_MAX = 8, SYMBOLS_MAX = 64, NAME_MAX_ = 512, STATEMENT_MAX = 1024 };

struct symbol {
    char name[NAME_MAX_];
    uint64_t offset;
};

struct label {
    char name[64];
    uint32_t at;
};

struct parser {
    const char *file;
    const char *at;
    uint32_t line;
    char *report;
    bool failed;

    char dynamic[NAME_MAX_]; /* name of the file's dynamic shared memory; "": none */

    /* the entry being read */
    struct ptx_kernel *kernel;
    uint32_t room;
    struct {
        char name[8];
        uint32_t first;
    } classes[CLASSES_MAX];
    uint32_t n_classes;
    struct {
        char name[16];
        uint32_t reg;
    } scoped[SCOPED_MAX]; /* registers of a nested block, which hide registers of the same name */
    uint32_t n_scoped;
    struct symbol symbols[SYMBOLS_MAX];
    uint32_t n_symbols;
    struct label *labels, *jumps; /* owned: labels with their places, and jumps to labels */
    uint32_t n_labels, labels_room, n_jumps, jumps_room;
};

__attribute__((format(printf, 2, 3))) static void refuse(struct parser *p, const char *format, ...)
{
    va_list arguments;
    if (p->failed)
        return;
    p->failed = true;
    const int n = snprintf(p->report, EMULATOR_REPORT_MAX / 2, "%.200s:%u: ", p->file, p->line);
    va_start(arguments, format);
    (void)vsnprintf(p->report + n, EMULATOR_REPORT_MAX / 2, format, arguments);
    va_end(arguments);
}

static void next_char(struct parser *p)
{
    p->line += *p->at == '\n';
    p->at++;
}

static void skip_space(struct parser *p)
{
    for (;;) {
        while (isspace((unsigned char)*p->at))
            next_char(p);
        if (p->at[0] != '/' || p->at[1] != '/')
            return;
        while (*p->at && *p->at != '\n')
            p->at++;
    }
}

/* Takes text up to one of the characters in `ends`, which stays. */
static void take_until(struct parser *p, const char *ends, char *ret_text, size_t max)
{
    size_t n = 0;
    skip_space(p);
    while (*p->at && !strchr(ends, *p->at)) {
        if (n + 1 < max)
            ret_text[n++] = *p->at;
        else
            refuse(p, "too long");
        next_char(p);
    }
    while (n && isspace((unsigned char)ret_text[n - 1]))
        n--;
    ret_text[n] = '\0';
}

/* Appends a declaration at an offset and returns its end. Examples: ".param .align 8 .b8 NAME[64]", ".shared .align 4
 * .b8 NAME[256]", ".param .u64 NAME". */
static uint64_t declare(struct parser *p, const char *text, uint64_t offset)
{
    const char *align_at = strstr(text, ".align "), *name = strrchr(text, ' '), *type = NULL;
    for (const char *at = text; (at = strchr(at, '.')); at++)
        if (strchr("bufs", at[1]) && isdigit((unsigned char)at[2]))
            type = at + 2;
    if (!name || !type || p->n_symbols == SYMBOLS_MAX) {
        refuse(p, "a variable that is not understood: %.200s", text);
        return offset;
    }
    const uint64_t bytes = strtoull(type, NULL, 10) / 8,
                   align = align_at ? strtoull(align_at + 7, NULL, 10) : bytes;
    const char *bracket = strchr(name, '[');
    const uint64_t n = bracket ? strtoull(bracket + 1, NULL, 10) : 1;
    struct symbol *symbol = &p->symbols[p->n_symbols++];
    (void)snprintf(symbol->name, sizeof symbol->name, "%.*s",
                   (int)(bracket ? bracket - name - 1 : (long)strlen(name + 1)), name + 1);
    symbol->offset = (offset + align - 1) / align * align;
    return symbol->offset + bytes * n;
}

/* Declares registers: ".reg .b32 %r<460>", or ".reg .pred %p1" within a block. */
static void declare_registers(struct parser *p, const char *text)
{
    const char *name = strchr(text, '%'), *count = strchr(text, '<');
    if (name && !count && p->n_scoped < SCOPED_MAX) {
        (void)snprintf(p->scoped[p->n_scoped].name, sizeof p->scoped[0].name, "%.15s", name);
        p->scoped[p->n_scoped++].reg = p->kernel->registers++;
        return;
    }
    if (!name || !count || count - name > 6 || p->n_classes == CLASSES_MAX) {
        refuse(p, "registers that are not understood: %.200s", text);
        return;
    }
    (void)snprintf(p->classes[p->n_classes].name, sizeof p->classes[0].name, "%.*s", (int)(count - name - 1),
                   name + 1);
    p->classes[p->n_classes++].first = p->kernel->registers;
    p->kernel->registers += (uint32_t)strtoul(count + 1, NULL, 10);
}

static void directive(struct parser *p)
{
    char text[STATEMENT_MAX];
    take_until(p, ";", text, sizeof text);
    if (*p->at)
        p->at++;
    if (strncmp(text, ".reg", 4) == 0)
        declare_registers(p, text);
    else if (strncmp(text, ".shared", 7) == 0)
        p->kernel->shared_bytes = (uint32_t)declare(p, text, p->kernel->shared_bytes);
    else if (strncmp(text, ".loc", 4) != 0 && strncmp(text, ".pragma", 7) != 0)
        refuse(p, "a directive that is not known: %.200s", text);
}

static const char *const specials[PTX_SPECIALS] = {
    [PTX_TID_X] = "tid.x",       [PTX_TID_Y] = "tid.y",       [PTX_TID_Z] = "tid.z",
    [PTX_NTID_X] = "ntid.x",     [PTX_NTID_Y] = "ntid.y",     [PTX_NTID_Z] = "ntid.z",
    [PTX_CTAID_X] = "ctaid.x",   [PTX_CTAID_Y] = "ctaid.y",   [PTX_CTAID_Z] = "ctaid.z",
    [PTX_NCTAID_X] = "nctaid.x", [PTX_NCTAID_Y] = "nctaid.y", [PTX_NCTAID_Z] = "nctaid.z",
};

static struct ptx_operand parse_register(struct parser *p, const char *text)
{
    for (uint64_t i = 0; i < PTX_SPECIALS; i++)
        if (strcmp(text + 1, specials[i]) == 0)
            return (struct ptx_operand){PTX_SPECIAL, 0, i};
    for (uint32_t i = 0; i < p->n_scoped; i++)
        if (strcmp(p->scoped[i].name, text) == 0)
            return (struct ptx_operand){PTX_REGISTER, p->scoped[i].reg, 0};
    const size_t letters = strcspn(text + 1, "0123456789");
    for (uint32_t i = 0; i < p->n_classes; i++)
        if (strlen(p->classes[i].name) == letters && strncmp(p->classes[i].name, text + 1, letters) == 0)
            return (struct ptx_operand){
                PTX_REGISTER, p->classes[i].first + (uint32_t)strtoul(text + 1 + letters, NULL, 10), 0};
    refuse(p, "no such register: %.100s", text);
    return (struct ptx_operand){0};
}

static struct ptx_operand parse_symbol(struct parser *p, const char *text)
{
    if (p->dynamic[0] && strcmp(text, p->dynamic) == 0)
        return (struct ptx_operand){PTX_NUMBER, 0, (p->kernel->shared_bytes + UINT64_C(127)) / 128 * 128};
    for (uint32_t i = 0; i < p->n_symbols; i++)
        if (strcmp(p->symbols[i].name, text) == 0)
            return (struct ptx_operand){PTX_NUMBER, 0, p->symbols[i].offset};
    refuse(p, "no such variable: %.200s", text);
    return (struct ptx_operand){0};
}

static uint64_t parse_number(const char *text)
{
    if (strncmp(text, "0f", 2) == 0 || strncmp(text, "0d", 2) == 0)
        return strtoull(text + 2, NULL, 16);
    return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 0);
}

static struct ptx_operand parse_plain(struct parser *p, const char *text)
{
    if (text[0] == '%')
        return parse_register(p, text);
    if (isdigit((unsigned char)text[0]) || text[0] == '-')
        return (struct ptx_operand){PTX_NUMBER, 0, parse_number(text)};
    return parse_symbol(p, text);
}

/* Parses a place without its brackets, such as "[%r1+16]" or "[NAME+-8]". */
static struct ptx_operand parse_place(struct parser *p, char *text)
{
    char *plus = strchr(text, '+');
    uint64_t more = 0;
    if (plus) {
        *plus = '\0';
        more = parse_number(plus + 1);
    }
    struct ptx_operand base = parse_plain(p, text);
    if (base.kind == PTX_REGISTER)
        return (struct ptx_operand){PTX_PLACE, base.reg, more};
    return (struct ptx_operand){PTX_PLACE, PTX_NO_REGISTER, base.number + more};
}

static void parse_operands(struct parser *p, struct ptx_insn *insn, char *text)
{
    static const char between[] = " \t,|{}";
    while (*(text += strspn(text, between))) {
        const bool is_place = *text == '[';
        const size_t n = is_place ? strcspn(text, "]") : strcspn(text, between);
        const char end = text[n];
        text[n] = '\0';
        if (insn->n == PTX_OPERANDS) {
            refuse(p, "too many operands");
            return;
        }
        insn->operand[insn->n++] = is_place ? parse_place(p, text + 1) : parse_plain(p, text);
        text += n + (end != '\0');
    }
}

static struct label *add_label(struct parser *p, struct label **labels, uint32_t *n, uint32_t *room,
                               const char *name, uint32_t at)
{
    if (*n == *room) {
        const uint32_t more = *room ? 2 * *room : 64;
        struct label *grown = realloc(*labels, more * sizeof *grown);
        if (!grown) {
            refuse(p, "no memory");
            return NULL;
        }
        *labels = grown;
        *room = more;
    }
    struct label *label = &(*labels)[(*n)++];
    (void)snprintf(label->name, sizeof label->name, "%.63s", name);
    label->at = at;
    return label;
}

static struct ptx_insn *add_insn(struct parser *p)
{
    struct ptx_kernel *kernel = p->kernel;
    if (kernel->n == p->room) {
        const uint32_t more = p->room ? 2 * p->room : 512;
        struct ptx_insn *grown = realloc(kernel->insns, more * sizeof *grown);
        if (!grown) {
            refuse(p, "no memory");
            return NULL;
        }
        kernel->insns = grown;
        p->room = more;
    }
    struct ptx_insn *insn = &kernel->insns[kernel->n++];
    memset(insn, 0, sizeof *insn);
    insn->guard = PTX_NO_REGISTER;
    insn->line = p->line;
    return insn;
}

/* True if an instruction has all operands that it needs to run. */
static bool is_whole(const struct ptx_insn *insn)
{
    if (insn->n < insn->op.results || (insn->op.way == PTX_ALONE && insn->n > 5))
        return false;
    for (uint32_t i = 0; i < insn->op.results; i++)
        if (insn->operand[i].kind != PTX_REGISTER)
            return false;
    return true;
}

/* True for a move that splits ("mov.b64 {%r1, %r2}, %rd1") or joins ("mov.b64 %rd1, {%r1, %r2}") two halves. */
static bool splits(const char *name, const char *operands)
{
    return strcmp(name, "mov.b64") == 0 && *operands == '{';
}

/* Returns the name of a 64-bit move in the tables. */
static const char *plain_name(const char *name, const struct ptx_insn *insn)
{
    if (strcmp(name, "mov.b64") != 0)
        return name;
    return insn->n == 3 ? "mov.b64.halves" : "mov.u64";
}

static void add_split(struct parser *p, struct ptx_insn *insn)
{
    struct ptx_insn low = *insn, high = *insn;
    const struct ptx_operand from = insn->operand[2];
    low.n = 2;
    low.operand[1] = from;
    high.n = 3;
    high.operand[0] = insn->operand[1];
    high.operand[1] = from;
    high.operand[2] = (struct ptx_operand){PTX_NUMBER, 0, 32};
    (void)ptx_decode(&low, "cvt.u32.u64");
    (void)ptx_decode(&high, "shr.u64");
    *insn = low;
    struct ptx_insn *second = add_insn(p);
    if (second)
        *second = high;
}

static void instruction(struct parser *p, char *text)
{
    struct ptx_insn *insn = add_insn(p);
    char name[128] = "";
    if (!insn)
        return;
    if (*text == '@') {
        insn->guard_not = text[1] == '!';
        text += 1 + insn->guard_not;
        const size_t n = strcspn(text, " \t");
        const char end = text[n];
        text[n] = '\0';
        insn->guard = parse_register(p, text).reg;
        text += n + (end != '\0');
        text += strspn(text, " \t");
    }
    const size_t n = strcspn(text, " \t");
    (void)snprintf(name, sizeof name, "%.*s", (int)n, text);
    text += n;
    text += strspn(text, " \t");
    const bool in_halves = splits(name, text);
    if (strncmp(name, "bra", 3) == 0) {
        (void)add_label(p, &p->jumps, &p->n_jumps, &p->jumps_room, text, p->kernel->n - 1);
    } else {
        parse_operands(p, insn, text);
    }
    if (in_halves && insn->n == 3)
        add_split(p, insn);
    else if (!ptx_decode(insn, plain_name(name, insn)) || !is_whole(insn))
        refuse(p, "an instruction that is not known: %.100s, with %u operands", name, insn->n);
}

static void statement(struct parser *p)
{
    char text[STATEMENT_MAX];
    take_until(p, ";:", text, sizeof text);
    const char end = *p->at;
    if (end)
        p->at++;
    if (end == ':')
        (void)add_label(p, &p->labels, &p->n_labels, &p->labels_room, text, p->kernel->n);
    else if (text[0])
        instruction(p, text);
}

static void resolve(struct parser *p)
{
    for (uint32_t j = 0; j < p->n_jumps && !p->failed; j++) {
        uint32_t i = 0;
        while (i < p->n_labels && strcmp(p->labels[i].name, p->jumps[j].name) != 0)
            i++;
        if (i == p->n_labels || p->labels[i].at >= p->kernel->n) {
            refuse(p, "no such label: %s", p->jumps[j].name);
            return;
        }
        p->kernel->insns[p->jumps[j].at].target = p->labels[i].at;
        p->kernel->insns[p->labels[i].at].joins = true;
    }
}

static void body(struct parser *p)
{
    uint32_t depth = 1;
    while (depth && !p->failed) {
        skip_space(p);
        const char c = *p->at;
        if (c == '{' || c == '}') {
            depth += c == '{' ? 1 : UINT32_MAX;
            p->n_scoped = 0; /* blocks are not nested */
            p->at++;
        } else if (c == '.') {
            directive(p);
        } else if (c) {
            statement(p);
        } else {
            refuse(p, "the text ends inside of an entry");
        }
    }
    struct ptx_insn *last = p->failed ? NULL : add_insn(p);
    if (last) /* labels may follow the last instruction */
        (void)ptx_decode(last, "ret");
}

static void parameters(struct parser *p)
{
    char text[STATEMENT_MAX];
    while (*p->at && *p->at != ')' && !p->failed) {
        p->at++;
        take_until(p, ",)", text, sizeof text);
        if (text[0])
            p->kernel->parameters_bytes = declare(p, text, p->kernel->parameters_bytes);
    }
    if (*p->at)
        p->at++;
}

static bool add_kernel(struct ptx_library *library, struct ptx_kernel *kernel)
{
    if (library->n == library->room) {
        const size_t room = library->room ? 2 * library->room : 64;
        struct ptx_kernel **grown = realloc(library->kernels, room * sizeof *grown);
        if (!grown)
            return false;
        library->kernels = grown;
        library->room = room;
    }
    library->kernels[library->n++] = kernel;
    return true;
}

static void entry(struct parser *p, struct ptx_library *library)
{
    char text[STATEMENT_MAX];
    take_until(p, "({", text, sizeof text);
    struct ptx_kernel *kernel = calloc(1, sizeof *kernel);
    p->kernel = kernel;
    p->room = p->n_classes = p->n_symbols = p->n_labels = p->n_jumps = 0;
    if (!kernel || !(kernel->name = strdup(text)) || !(kernel->counts = calloc(1, sizeof *kernel->counts)) ||
        !add_kernel(library, kernel)) {
        refuse(p, "no memory");
        return;
    }
    if (*p->at == '(')
        parameters(p);
    take_until(p, "{", text, sizeof text);
    const char *most = strstr(text, ".maxntid");
    kernel->threads_max = most ? (uint32_t)strtoul(most + 8, NULL, 10) : 0;
    if (*p->at)
        p->at++;
    body(p);
    resolve(p);
}

/* Reads ".extern .shared .align 128 .b8 NAME[];". */
static void external(struct parser *p)
{
    char text[STATEMENT_MAX];
    take_until(p, ";", text, sizeof text);
    const char *name = strrchr(text, ' '), *bracket = strchr(text, '[');
    if (strstr(text, ".shared") && name && bracket && bracket > name)
        (void)snprintf(p->dynamic, sizeof p->dynamic, "%.*s", (int)(bracket - name - 1), name + 1);
}

bool ptx_parse(struct ptx_library *library, const char *file, const char *text, char *ret_report)
{
    struct parser *p = calloc(1, sizeof *p);
    char word[STATEMENT_MAX];
    if (!p) {
        (void)snprintf(ret_report, EMULATOR_REPORT_MAX, "%.200s: no memory", file);
        return false;
    }
    *p = (struct parser){.file = file, .at = text, .line = 1, .report = ret_report};
    for (skip_space(p); *p->at && !p->failed; skip_space(p)) {
        take_until(p, " \t\n", word, sizeof word);
        if (strcmp(word, ".extern") == 0)
            external(p);
        else if (strcmp(word, ".entry") == 0)
            entry(p, library);
        else if (strcmp(word, ".func") == 0)
            refuse(p, "a function that is called; kernels have none");
    }
    const bool done = !p->failed;
    free(p->labels);
    free(p->jumps);
    free(p);
    return done;
}
