/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading command lines: values of every kind, operands, and the message and hint for each mistake.
 */
#include "cli/frame/options.h"
#include "schemas/nearest.h"
#include "tests/support/check.h"

#include <string.h>

struct sample_options {
    bool loud;
    const char *name;
    const char *output;
    struct ah_option_integer memory_bytes;
    struct ah_option_integer steps;
    struct ah_option_real clip;
    const char *policy;
    struct ah_option_list rules;
};

static const char *const endless[] = {"endless", NULL};
static const char *const none[] = {"none", NULL};
static const char *const policies[] = {"optimal", "resident", "stream", NULL};

static const struct ah_option sample_table[] = {
    {"loud", 'l', AH_OPTION_FLAG, NULL, NULL, offsetof(struct sample_options, loud), "in capitals"},
    {"name", 0, AH_OPTION_TEXT, "NAME", NULL, offsetof(struct sample_options, name), "whom"},
    {"output", 'o', AH_OPTION_FILE, "FILE", NULL, offsetof(struct sample_options, output), "where to"},
    {"device-memory", 0, AH_OPTION_BYTES, "SIZE", NULL, offsetof(struct sample_options, memory_bytes),
     "limit"},
    {"steps", 0, AH_OPTION_COUNT, "N", endless, offsetof(struct sample_options, steps), "how many"},
    {"clip", 0, AH_OPTION_REAL, "X", none, offsetof(struct sample_options, clip), "norm"},
    {"policy", 0, AH_OPTION_WORD, "P", policies, offsetof(struct sample_options, policy), "which"},
    {"rule", 0, AH_OPTION_TEXTS, "RULE", NULL, offsetof(struct sample_options, rules), "one more"},
    {NULL, 0, AH_OPTION_FLAG, NULL, NULL, 0, NULL}};

static const char *const kinds[] = {"model", "plan", NULL};

static const struct ah_option_syntax any_files = {sample_table,
                                                  {AH_OPERAND_FILE, "FILE", 0, UINT32_MAX, NULL}};
static const struct ah_option_syntax two_files = {sample_table, {AH_OPERAND_FILE, "FILE", 2, 2, NULL}};
static const struct ah_option_syntax one_kind = {NULL, {AH_OPERAND_WORD, "KIND", 0, 1, kinds}};

struct parsed {
    struct ah_arena arena;
    struct sample_options options;
    struct ah_arguments arguments;
    struct ah_error err;
    int rc;
};

#define WORDS(...)                                                                                           \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static struct parsed parse(const struct ah_option_syntax *syntax, const char *const *words)
{
    struct parsed parsed = {.rc = 0};
    parsed.rc =
        ah_options_parse(syntax, words, &parsed.arena, &parsed.options, &parsed.arguments, &parsed.err);
    return parsed;
}

static void refused(const struct ah_option_syntax *syntax, const char *const *words, const char *part)
{
    struct parsed parsed = parse(syntax, words);
    assert_int_equal(parsed.rc, AH_E_USAGE);
    check_text_has(parsed.err.text, part);
    ah_arena_release(&parsed.arena);
}

TEST(options, reads_every_kind)
{
    struct parsed parsed =
        parse(&any_files,
              WORDS("--loud", "--name", "ada", "-o", "x.json", "--device-memory", "12GiB", "--steps", "1.5k",
                    "--clip", "0.5", "--policy", "stream", "--rule", "a<1", "--rule", "b>2", "--json"));
    assert_int_equal(parsed.rc, 0);
    assert_true(parsed.options.loud);
    assert_string_equal(parsed.options.name, "ada");
    assert_string_equal(parsed.options.output, "x.json");
    assert_true(parsed.options.memory_bytes.given);
    assert_int_equal(parsed.options.memory_bytes.value, 12ULL << 30);
    assert_int_equal(parsed.options.steps.value, 1500);
    assert_true(parsed.options.clip.given && parsed.options.clip.value == 0.5);
    assert_string_equal(parsed.options.policy, "stream");
    assert_int_equal(parsed.options.rules.n, 2);
    assert_string_equal(parsed.options.rules.items[0], "a<1");
    assert_string_equal(parsed.options.rules.items[1], "b>2");
    assert_true(parsed.arguments.json);
    assert_int_equal(parsed.arguments.n_operands, 0);
    ah_arena_release(&parsed.arena);
}

TEST(options, zero_is_the_default)
{
    struct parsed parsed = parse(&any_files, WORDS("a"));
    const struct sample_options nothing = {0};
    assert_int_equal(parsed.rc, 0);
    assert_memory_equal(&parsed.options, &nothing, sizeof nothing);
    ah_arena_release(&parsed.arena);
}

TEST(options, zero_and_words_differ_from_nothing)
{
    struct parsed parsed =
        parse(&any_files, WORDS("--steps=0", "--clip", "none", "--device-memory=0", "--steps", "endless"));
    assert_int_equal(parsed.rc, 0);
    assert_true(parsed.options.memory_bytes.given);
    assert_int_equal(parsed.options.memory_bytes.value, 0);
    assert_string_equal(parsed.options.steps.word, "endless");
    assert_string_equal(parsed.options.clip.word, "none");
    ah_arena_release(&parsed.arena);
    parsed = parse(&any_files, WORDS("--steps", "endless", "--steps", "3"));
    assert_null(parsed.options.steps.word);
    assert_int_equal(parsed.options.steps.value, 3);
    ah_arena_release(&parsed.arena);
}

TEST(options, attached_values)
{
    struct parsed parsed = parse(&any_files, WORDS("--name=a=b", "-ox.json", "--steps=7", "-l"));
    assert_int_equal(parsed.rc, 0);
    assert_string_equal(parsed.options.name, "a=b");
    assert_string_equal(parsed.options.output, "x.json");
    assert_int_equal(parsed.options.steps.value, 7);
    assert_true(parsed.options.loud);
    ah_arena_release(&parsed.arena);
}

TEST(options, the_last_one_counts)
{
    struct parsed parsed = parse(&any_files, WORDS("--name", "a", "--name", "b"));
    assert_int_equal(parsed.rc, 0);
    assert_string_equal(parsed.options.name, "b");
    ah_arena_release(&parsed.arena);
}

TEST(options, operands_mix_with_options)
{
    struct parsed parsed = parse(&any_files, WORDS("a", "--loud", "-", "--", "--name", "-x"));
    assert_int_equal(parsed.rc, 0);
    assert_true(parsed.options.loud);
    assert_null(parsed.options.name);
    assert_int_equal(parsed.arguments.n_operands, 4);
    assert_string_equal(parsed.arguments.operands[0], "a");
    assert_string_equal(parsed.arguments.operands[1], "-");
    assert_string_equal(parsed.arguments.operands[2], "--name");
    assert_string_equal(parsed.arguments.operands[3], "-x");
    ah_arena_release(&parsed.arena);
}

TEST(options, a_value_may_look_like_an_option)
{
    struct parsed parsed = parse(&any_files, WORDS("--name", "--loud", "-o", "-"));
    assert_int_equal(parsed.rc, 0);
    assert_string_equal(parsed.options.name, "--loud");
    assert_string_equal(parsed.options.output, "-");
    assert_false(parsed.options.loud);
    ah_arena_release(&parsed.arena);
}

TEST(options, help_needs_no_operands)
{
    struct parsed parsed = parse(&two_files, WORDS("--help"));
    assert_int_equal(parsed.rc, 0);
    assert_true(parsed.arguments.help);
    ah_arena_release(&parsed.arena);
}

TEST(options, refuses_with_a_hint)
{
    refused(&any_files, WORDS("--nmae", "x"), "unknown option '--nmae'; did you mean '--name'?");
    refused(&any_files, WORDS("--jsn"), "did you mean '--json'?");
    refused(&any_files, WORDS("--policy", "stram"), "'stram' is not one of optimal, resident, stream");
    refused(&any_files, WORDS("--policy=stram"), "did you mean 'stream'?");
}

TEST(options, refuses_without_a_far_fetched_hint)
{
    struct parsed parsed = parse(&any_files, WORDS("--verbose"));
    assert_int_equal(parsed.rc, AH_E_USAGE);
    assert_string_equal(parsed.err.text, "unknown option '--verbose'");
    ah_arena_release(&parsed.arena);
}

TEST(options, refuses_bad_values)
{
    refused(&any_files, WORDS("--name"), "'--name' needs a value: --name NAME");
    refused(&any_files, WORDS("-o"), "'-o' needs a value");
    refused(&any_files, WORDS("--name="), "'--name' has an empty value");
    refused(&any_files, WORDS("--loud=yes"), "'--loud' takes no value");
    refused(&any_files, WORDS("-lx"), "unknown option '-lx'");
    refused(&any_files, WORDS("-z"), "unknown option '-z'");
    refused(&any_files, WORDS("--device-memory", "12G"), "'--device-memory'");
    refused(&any_files, WORDS("--steps", "-3"), "'--steps'");
    refused(&any_files, WORDS("--steps", ""), "'--steps'");
    refused(&any_files, WORDS("--steps", "some"), "'--steps': 'some' is not a count");
    refused(&any_files, WORDS("--steps", "some"), ", or 'endless'");
    refused(&any_files, WORDS("--clip", "-1"), "'--clip': '-1' is not a number, 0 or above");
    refused(&any_files, WORDS("--clip", "1e999"), "'--clip'");
    refused(&any_files, WORDS("--clip", "nan"), "'--clip'");
    refused(&any_files, WORDS("--clip", "0x1p3"), "'--clip'");
    refused(&any_files, WORDS("--=x"), "unknown option '--'");
}

TEST(options, counts_operands)
{
    refused(&two_files, WORDS("a"), "FILE is missing");
    refused(&two_files, WORDS("a", "b", "c"), "'c' is an extra argument");
    refused(&one_kind, WORDS("modle"), "KIND: 'modle' is not one of model, plan; did you mean 'model'?");
    struct parsed parsed = parse(&one_kind, WORDS("plan"));
    assert_int_equal(parsed.rc, 0);
    ah_arena_release(&parsed.arena);
}

TEST(options, nearest_counts_edits)
{
    const char *const names[] = {"profile", "inspect", "check", "diff"};
    assert_string_equal(ah_nearest("porfile", names, 4), "profile"); /* swapping two neighbours is one edit */
    assert_string_equal(ah_nearest("chek", names, 4), "check");
    assert_string_equal(ah_nearest("difff", names, 4), "diff");
    assert_string_equal(ah_nearest("inspct", names, 4), "inspect");
    assert_null(ah_nearest("train", names, 4));
    assert_null(ah_nearest("", names, 4));
    char very_long[200];
    memset(very_long, 'x', sizeof very_long - 1);
    very_long[sizeof very_long - 1] = '\0';
    assert_null(ah_nearest(very_long, names, 4));
}
