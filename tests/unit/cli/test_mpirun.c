/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the command line that starts mpirun, and reading a child's output.
 */
#include "cli/profile/mpirun.h"

#include "base/buffer.h"
#include "tests/support/check.h"

#include <string.h>

static struct ah_hosts_entry entries[] = {{"a", 2}, {"b", 1}};
static const struct ah_hosts hosts = {entries, 2, 3};

/* Joins the words of the command, with PROGRAM in place of the program's path. */
static void join(const char *const *command, struct ah_buffer *out)
{
    for (size_t i = 0; command[i]; i++)
        ah_buffer_printf(out, "%s%s", i ? " " : "", command[i][0] == '/' ? "PROGRAM" : command[i]);
}

static void check_words(bool one_each, const char *expected)
{
    static const char *const words[] = {"run", "plan.json", NULL};
    struct ah_arena arena = {0};
    struct ah_buffer text = {0};
    struct ah_error err = {0};
    const char *const *command = NULL;
    CHECK_OK(ah_mpirun_words(&hosts, one_each, words, &arena, &command, &err), err);
    join(command, &text);
    assert_string_equal(text.data, expected);
    ah_buffer_release(&text);
    ah_arena_release(&arena);
}

/* Without an option, mpirun would bind each of two ranks to one core. */
TEST(mpirun, starts_ranks_in_the_order_of_hosts_without_binding_them)
{
    check_words(false,
                "mpirun --map-by slot:OVERSUBSCRIBE --bind-to none -n 2 --host a:2 PROGRAM run plan.json : "
                "-n 1 --host b:1 PROGRAM run plan.json");
    check_words(true,
                "mpirun --map-by slot:OVERSUBSCRIBE --bind-to none -n 1 --host a:1 PROGRAM run plan.json : "
                "-n 1 --host b:1 PROGRAM run plan.json");
}

static void hear(void *context, const char *bytes, size_t n)
{
    ah_buffer_append(context, bytes, n);
}

TEST(mpirun, hears_all_that_a_child_says_and_its_status)
{
    static const char *const command[] = {
        "sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done; exit 3", NULL};
    struct ah_buffer text = {0};
    const struct ah_mpirun_reader reader = {hear, &text};
    struct ah_error err = {0};
    int status = 0;
    CHECK_OK(ah_mpirun_launch(command, &reader, &status, &err), err);
    assert_int_equal(status, 3);
    assert_int_equal(text.size, 108890);
    assert_string_equal(text.data + text.size - 6, "19999\n");
    ah_buffer_release(&text);
}

TEST(mpirun, says_that_there_is_none)
{
    static const char *const command[] = {"/nowhere/mpirun", NULL};
    struct ah_error err = {0};
    int status = 0;
    CHECK_FAILS(ah_mpirun_launch(command, NULL, &status, &err), err, AH_E_MISSING, "needs mpirun");
}
