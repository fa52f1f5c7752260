/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests how ranks find out whether they share a folder. It counts as shared only if every answer arrives.
 */
#include "runtime/train/checkpoint/shared.h"

#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4 };

static const bool all[RANKS] = {true, true, true, true};

/* True if the folder counts as shared. Ranks 1 and 2 see it, and rank 3 sees `folder_of_last` and this token. */
static bool is_shared(const char *folder, const char *folder_of_last, const char *token_of_last)
{
    char token[AH_SHARED_TOKEN_MAX] = "", path[PATH_MAX];
    struct ah_error err = {0};
    bool shared = true;
    assert_true(ah_shared_offer(folder, token));
    assert_true(ah_shared_answer(folder, token, 1, 0));
    assert_true(ah_shared_answer(folder, token, 2, 0));
    const bool last = ah_shared_answer(folder_of_last, token_of_last ? token_of_last : token, 3, 0);
    CHECK_OK(ah_shared_check(folder, token, all, RANKS, &shared, &err), err);
    assert_int_equal(last, shared);
    snprintf(path, sizeof path, "%s/" AH_SHARED_FILE, folder);
    assert_int_equal(access(path, F_OK), -1);
    return shared;
}

TEST_IN(shared, is_what_all_see, root_make, root_remove)
{
    char elsewhere[PATH_MAX];
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", (char *)*state);
    assert_true(is_shared(*state, *state, NULL));
    assert_false(is_shared(*state, elsewhere, NULL)); /* rank 3 has no such folder */
    assert_false(is_shared(*state, *state, "0123456789abcdef0123456789abcdef"));
}

/* Rank 2's answer is missing. The first time, rank 2 says that it answered, the second time that it did not. */
TEST_IN(shared, needs_every_answer, root_make, root_remove)
{
    const bool some[RANKS] = {true, true, false, true};
    char token[AH_SHARED_TOKEN_MAX] = "";
    struct ah_error err = {0};
    bool shared = true;
    for (int k = 0; k < 2; k++) {
        assert_true(ah_shared_offer(*state, token));
        assert_true(ah_shared_answer(*state, token, 1, 0) && ah_shared_answer(*state, token, 3, 0));
        CHECK_OK(ah_shared_check(*state, token, k ? some : all, RANKS, &shared, &err), err);
        assert_int_equal(shared, k);
    }
}

static void *answer_early(void *folder_and_token)
{
    char **of = folder_and_token;
    return ah_shared_answer(of[0], of[1], 1, 10 * AH_SHARED_PATIENCE_MS) ? of : NULL;
}

/* The file appears late, as on network file systems. A rank with too little patience gives up earlier. */
TEST_IN(shared, has_patience, root_make, root_remove)
{
    char token[AH_SHARED_TOKEN_MAX] = "", path[PATH_MAX], late[PATH_MAX], *of[] = {*state, token};
    struct ah_error err = {0};
    void *answered = NULL;
    bool shared = false;
    pthread_t rank;
    snprintf(path, sizeof path, "%s/" AH_SHARED_FILE, (char *)*state);
    snprintf(late, sizeof late, "%s/late", (char *)*state);
    assert_true(ah_shared_offer(*state, token));
    assert_int_equal(rename(path, late), 0);
    assert_false(ah_shared_answer(*state, token, 1, 30));
    assert_int_equal(pthread_create(&rank, NULL, answer_early, of), 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    assert_int_equal(rename(late, path), 0);
    assert_int_equal(pthread_join(rank, &answered), 0);
    assert_ptr_equal(answered, of);
    CHECK_OK(ah_shared_check(*state, token, all, 2, &shared, &err), err);
    assert_true(shared);
}
