/* SPDX-License-Identifier: Apache-2.0
 *
 * autohete completion SHELL: prints the completion script of a shell, made from the tables of verbs and options.
 *
 * bash: a function over COMP_WORDS. The word before the one at the cursor decides whether an option's value, an option
 * or an operand follows. zsh: one _arguments specification per verb. fish: one `complete` line per option.
 */
#include "cli/frame/emit.h"
#include "cli/verbs.h"

#include <string.h>

typedef void script_writer(const struct ah_cli *cli, struct ah_buffer *out);
typedef void option_writer(struct ah_buffer *out, const struct ah_verb *verb, const struct ah_option *option);

static void each_option(struct ah_buffer *out, const struct ah_verb *verb, option_writer *put)
{
    for (const struct ah_option *option = verb->syntax.options; option && option->name; option++)
        put(out, verb, option);
    for (const struct ah_option *option = ah_options_common; option->name; option++)
        put(out, verb, option);
}

static void put_words(struct ah_buffer *out, const char *const *words)
{
    for (size_t i = 0; words && words[i]; i++)
        ah_buffer_printf(out, "%s%s", i ? " " : "", words[i]);
}

static void put_verbs(struct ah_buffer *out, const struct ah_cli *cli)
{
    for (size_t i = 0; cli->verbs[i]; i++)
        ah_buffer_printf(out, "%s%s", i ? " " : "", cli->verbs[i]->name);
}

/* Appends text in single quotes. A quote inside ends and resumes them. Characters in `escape` get a backslash. */
static void put_quoted(struct ah_buffer *out, const char *text, const char *escape)
{
    for (; *text; text++) {
        if (*text == '\'')
            ah_buffer_puts(out, "'\\''");
        else if (strchr(escape, *text))
            ah_buffer_printf(out, "\\%c", *text);
        else
            ah_buffer_append(out, text, 1);
    }
}

static void bash_option_name(struct ah_buffer *out, const struct ah_verb *verb,
                             const struct ah_option *option)
{
    (void)verb;
    if (option->letter)
        ah_buffer_printf(out, "-%c ", option->letter);
    ah_buffer_printf(out, "--%s ", option->name);
}

/* Returns the words for completing the value. NULL for an output: its words only say what it may replace. */
static const char *const *words_of(const struct ah_option *option)
{
    return option->kind == AH_OPTION_OUTPUT ? NULL : option->words;
}

/* Prints the case of the script in which the word before the cursor is this option, so that its value is next. */
static void bash_option_value(struct ah_buffer *out, const struct ah_verb *verb,
                              const struct ah_option *option)
{
    if (!option->value)
        return;
    ah_buffer_printf(out, "        %s:--%s", verb->name, option->name);
    if (option->letter)
        ah_buffer_printf(out, " | %s:-%c", verb->name, option->letter);
    ah_buffer_puts(out, ") ");
    if (words_of(option)) {
        ah_buffer_puts(out, "words='");
        put_words(out, words_of(option));
        ah_buffer_printf(out, "'%s", ah_options_is_path(option) ? " files=1" : "");
    } else if (ah_options_is_path(option)) {
        ah_buffer_puts(out, "files=1");
    } else {
        ah_buffer_puts(out, ":");
    }
    ah_buffer_puts(out, " ;;\n");
}

static void bash_operands(const struct ah_cli *cli, struct ah_buffer *out, const struct ah_verb *verb)
{
    ah_buffer_printf(out, "        %s) ", verb->name);
    switch (verb->syntax.operands.kind) {
    case AH_OPERAND_FILE:
        ah_buffer_puts(out, "files=1");
        break;
    case AH_OPERAND_WORD:
        ah_buffer_puts(out, "words='");
        put_words(out, verb->syntax.operands.words);
        ah_buffer_puts(out, "'");
        break;
    case AH_OPERAND_VERB:
        ah_buffer_puts(out, "words='");
        put_verbs(out, cli);
        ah_buffer_puts(out, "'");
        break;
    case AH_OPERAND_NONE:
        ah_buffer_puts(out, ":");
        break;
    }
    ah_buffer_puts(out, " ;;\n");
}

static void write_bash(const struct ah_cli *cli, struct ah_buffer *out)
{
    ah_buffer_puts(out, "# bash completion of autohete, printed by 'autohete completion bash'\n"
                        "_autohete() {\n"
                        "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                        "    local verb=${COMP_WORDS[1]} words='' files=''\n"
                        "    # bash splits --name=value into three words\n"
                        "    if [[ $current == '=' ]]; then\n"
                        "        current=''\n"
                        "    elif [[ $before == '=' ]]; then\n"
                        "        before=${COMP_WORDS[COMP_CWORD - 2]}\n"
                        "    fi\n"
                        "    if ((COMP_CWORD == 1)); then\n"
                        "        words='");
    put_verbs(out, cli);
    ah_buffer_puts(out, " --help --version'\n"
                        "    else\n"
                        "        case $verb:$before in\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++)
        each_option(out, *verb, bash_option_value);
    ah_buffer_puts(out, "        *)\n"
                        "            case $verb:$current in\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++) {
        ah_buffer_printf(out, "            %s:-*) words='", (*verb)->name);
        each_option(out, *verb, bash_option_name);
        ah_buffer_puts(out, "' ;;\n");
    }
    ah_buffer_puts(out, "            *)\n"
                        "                case $verb in\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++) {
        ah_buffer_puts(out, "        ");
        bash_operands(cli, out, *verb);
    }
    ah_buffer_puts(out,
                   "                esac\n"
                   "                ;;\n"
                   "            esac\n"
                   "            ;;\n"
                   "        esac\n"
                   "    fi\n"
                   "    COMPREPLY=()\n"
                   "    if [[ $files ]]; then\n"
                   "        compopt -o filenames 2>/dev/null\n"
                   "        mapfile -t COMPREPLY < <(compgen -f -- \"$current\"; compgen -W \"$words\" -- "
                   "\"$current\")\n"
                   "    elif [[ $words ]]; then\n"
                   "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
                   "    fi\n"
                   "}\n"
                   "complete -F _autohete autohete\n");
}

/* Prints '(-o --output)'{-o,--output}'[help]:FILE:_files'. */
static void zsh_option(struct ah_buffer *out, const struct ah_verb *verb, const struct ah_option *option)
{
    (void)verb;
    ah_buffer_puts(out, " \\\n                ");
    const char *repeats = ah_options_repeats(option) ? "*" : "";
    if (option->letter)
        ah_buffer_printf(out, "'(-%c --%s)'{-%c%s,--%s%s}'[", option->letter, option->name, option->letter,
                         option->value ? "+" : "", option->name, option->value ? "=" : "");
    else
        ah_buffer_printf(out, "'%s--%s%s[", repeats, option->name, option->value ? "=" : "");
    put_quoted(out, option->help, "[]:");
    ah_buffer_puts(out, "]");
    if (option->value) {
        ah_buffer_puts(out, ":");
        put_quoted(out, option->value, "[]:'");
        ah_buffer_puts(out, ":");
    }
    if (ah_options_is_path(option) && words_of(option)) {
        ah_buffer_puts(out, "{_files; compadd ");
        put_words(out, words_of(option));
        ah_buffer_puts(out, "}");
    } else if (ah_options_is_path(option)) {
        ah_buffer_puts(out, "_files");
    } else if (option->words) {
        ah_buffer_puts(out, "(");
        put_words(out, option->words);
        ah_buffer_puts(out, ")");
    }
    ah_buffer_puts(out, "'");
}

static void zsh_operands(const struct ah_cli *cli, struct ah_buffer *out, const struct ah_verb *verb)
{
    const struct ah_operands *operands = &verb->syntax.operands;
    if (operands->kind == AH_OPERAND_NONE)
        return;
    ah_buffer_printf(out, " \\\n                '%s:%s:", operands->max > 1 ? "*" : "1", operands->name);
    if (operands->kind == AH_OPERAND_FILE) {
        ah_buffer_puts(out, "_files'");
        return;
    }
    ah_buffer_puts(out, "(");
    if (operands->kind == AH_OPERAND_WORD)
        put_words(out, operands->words);
    else
        put_verbs(out, cli);
    ah_buffer_puts(out, ")'");
}

static void write_zsh(const struct ah_cli *cli, struct ah_buffer *out)
{
    ah_buffer_puts(out, "#compdef autohete\n"
                        "# zsh completion of autohete, printed by 'autohete completion zsh'\n"
                        "_autohete() {\n"
                        "    local -a verbs\n"
                        "    verbs=(\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++) {
        ah_buffer_printf(out, "        '%s:", (*verb)->name);
        put_quoted(out, (*verb)->summary, ":");
        ah_buffer_puts(out, "'\n");
    }
    ah_buffer_puts(out, "    )\n"
                        "    if ((CURRENT == 2)); then\n"
                        "        _describe verb verbs\n"
                        "        _arguments '--help[explain autohete]' '--version[print the version]'\n"
                        "        return\n"
                        "    fi\n"
                        "    local verb=$words[2]\n"
                        "    shift words\n"
                        "    ((CURRENT--))\n"
                        "    case $verb in\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++) {
        ah_buffer_printf(out, "        %s)\n            _arguments -s", (*verb)->name);
        each_option(out, *verb, zsh_option);
        zsh_operands(cli, out, *verb);
        ah_buffer_puts(out, "\n            ;;\n");
    }
    ah_buffer_puts(out, "    esac\n"
                        "}\n"
                        "if [[ $funcstack[1] == _autohete ]]; then\n"
                        "    _autohete \"$@\"\n"
                        "else\n"
                        "    compdef _autohete autohete\n"
                        "fi\n");
}

static void fish_option(struct ah_buffer *out, const struct ah_verb *verb, const struct ah_option *option)
{
    ah_buffer_printf(out, "complete -c autohete -n '__fish_seen_subcommand_from %s' -l %s", verb->name,
                     option->name);
    if (option->letter)
        ah_buffer_printf(out, " -s %c", option->letter);
    if (ah_options_is_path(option))
        ah_buffer_puts(out, " -r -F");
    else if (option->value)
        ah_buffer_puts(out, " -x");
    if (words_of(option)) {
        ah_buffer_puts(out, " -a '");
        put_words(out, words_of(option));
        ah_buffer_puts(out, "'");
    }
    ah_buffer_puts(out, " -d '");
    put_quoted(out, option->help, "\\");
    ah_buffer_puts(out, "'\n");
}

static void fish_operands(const struct ah_cli *cli, struct ah_buffer *out, const struct ah_verb *verb)
{
    const struct ah_operands *operands = &verb->syntax.operands;
    if (operands->kind == AH_OPERAND_NONE)
        return;
    ah_buffer_printf(out, "complete -c autohete -n '__fish_seen_subcommand_from %s' ", verb->name);
    if (operands->kind == AH_OPERAND_FILE) {
        ah_buffer_puts(out, "-F\n");
        return;
    }
    ah_buffer_puts(out, "-a '");
    if (operands->kind == AH_OPERAND_WORD)
        put_words(out, operands->words);
    else
        put_verbs(out, cli);
    ah_buffer_puts(out, "'\n");
}

static void write_fish(const struct ah_cli *cli, struct ah_buffer *out)
{
    ah_buffer_puts(out, "# fish completion of autohete, printed by 'autohete completion fish'\n"
                        "complete -c autohete -f\n"
                        "complete -c autohete -n __fish_use_subcommand -l help -d 'explain autohete'\n"
                        "complete -c autohete -n __fish_use_subcommand -l version -d 'print the version'\n");
    for (const struct ah_verb *const *verb = cli->verbs; *verb; verb++) {
        ah_buffer_printf(out, "complete -c autohete -n __fish_use_subcommand -a %s -d '", (*verb)->name);
        put_quoted(out, (*verb)->summary, "\\");
        ah_buffer_puts(out, "'\n");
        each_option(out, *verb, fish_option);
        fish_operands(cli, out, *verb);
    }
}

static const char *const shell_words[] = {"bash", "zsh", "fish", NULL};

static int completion_run(struct ah_cli *cli, const void *options)
{
    (void)options;
    static script_writer *const writers[] = {write_bash, write_zsh,
                                             write_fish}; /* in the order of shell_words */
    const char *shell = cli->arguments.operands[0];
    struct ah_buffer script = {0};
    for (size_t i = 0; shell_words[i]; i++)
        if (!strcmp(shell_words[i], shell))
            writers[i](cli, &script);
    struct ah_emit emit = {.out = &cli->out};
    if (script.failed) {
        cli->out.failed = true;
    } else if (cli->json) {
        ah_emit_open(&emit, NULL, '{');
        ah_emit_text(&emit, "shell", shell);
        ah_emit_text(&emit, "script", script.data);
        ah_emit_close(&emit);
    } else {
        ah_buffer_append(&cli->out, script.data, script.size);
    }
    ah_buffer_release(&script);
    return 0;
}

const struct ah_verb ah_verb_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .description = "Prints a script that completes verbs, options and file names in bash, zsh or fish.",
    .syntax = {.operands = {AH_OPERAND_WORD, "SHELL", 1, 1, shell_words}},
    .examples = {{"completion bash >~/.local/share/bash-completion/completions/autohete",
                  "install it for bash"},
                 {"completion fish >~/.config/fish/completions/autohete.fish", "install it for fish"}},
    .run = completion_run,
};
