/* SPDX-License-Identifier: Apache-2.0
 *
 * main() of the test programs: runs all registered cases, or those named on the command line (check.h).
 */
#include "tests/support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

static struct check_case *cases, **last = &cases;
static size_t skipped;

void check_register(struct check_case *entry)
{
    *last = entry;
    last = &entry->next;
}

void check_skip(const char *reason)
{
    print_message("skipped: %s\n", reason);
    skipped++;
    skip();
}

/* True if `word` names the case or its module. */
static bool names(const char *word, const struct check_case *entry)
{
    size_t length = strlen(word);
    return !strncmp(entry->test.name, word, length) && strchr(".", entry->test.name[length]);
}

static bool wanted(const struct check_case *entry, char **words)
{
    bool any = !*words;
    for (; *words; words++)
        any = any || names(*words, entry);
    return any;
}

int main(int argc, char **argv)
{
    size_t n = 0, most = 0;
    for (const struct check_case *entry = cases; entry; entry = entry->next)
        most++;
    struct CMUnitTest *tests = calloc(most + 1, sizeof *tests);
    if (!tests)
        return EXIT_FAILURE;
    for (const struct check_case *entry = cases; entry; entry = entry->next)
        if (wanted(entry, argv + (argc > 0)))
            tests[n++] = entry->test;
    if (!n)
        fprintf(stderr, "%s: no case has that name; its cases are named module.behaviour\n", argv[0]);
    int failed = n ? _cmocka_run_group_tests(argv[0], tests, n, NULL, NULL) : 0;
    free(tests);
    if (!n)
        return EXIT_USAGE;
    return failed ? EXIT_FAILURE : skipped == n ? EXIT_SKIPPED : EXIT_SUCCESS;
}
