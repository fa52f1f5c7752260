/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests arenas: pieces are zeroed, aligned and disjoint; impossible sizes are refused.
 */
#include "base/arena.h"

#include "tests/support/check.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 3000 };

/* Makes it likely that memory returned by malloc() next holds bytes other than 0. */
static void soil_heap(void)
{
    enum { BLOCKS = 64, BLOCK_BYTES = 20000 };
    unsigned char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        memset(blocks[i], 0xA5, BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

TEST(arena, pieces_are_zeroed_aligned_and_apart)
{
    struct ah_arena arena = {0};
    unsigned char *pieces[PIECES];
    size_t sizes[PIECES];
    uint64_t seed = check_seed(11), total = 0;
    soil_heap();
    for (int i = 0; i < PIECES; i++) {
        sizes[i] = check_random(&seed) % (i % 100 == 0 ? 40000 : 200);
        pieces[i] = ah_arena_alloc(&arena, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], 0);
        memset(pieces[i], i & 255, sizes[i]);
        total += sizes[i];
    }
    for (int i = 0; i < PIECES; i++) /* no piece overlaps another */
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(pieces[i][k], i & 255);
    assert_true(arena.total_bytes >= total);
    ah_arena_release(&arena);
}

TEST(arena, strings)
{
    struct ah_arena arena = {0};
    assert_string_equal(ah_arena_strdup(&arena, "gpt2"), "gpt2");
    assert_string_equal(ah_arena_strdup(&arena, ""), "");
    assert_string_equal(ah_arena_strndup(&arena, "llama-2", 5), "llama");
    ah_arena_release(&arena);
}

TEST(arena, impossible_sizes_are_refused)
{
    struct ah_arena arena = {0};
    assert_null(ah_arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(ah_arena_alloc(&arena, SIZE_MAX));
    assert_null(ah_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(ah_arena_strndup(&arena, "x", SIZE_MAX));
    assert_non_null(ah_arena_array(&arena, 0, 8));
    assert_non_null(ah_arena_alloc(&arena, 100)); /* still usable */
    ah_arena_release(&arena);
}

TEST(arena, usable_after_release)
{
    struct ah_arena arena = {0};
    ah_arena_release(&arena);
    assert_non_null(ah_arena_alloc(&arena, 10));
    ah_arena_release(&arena);
    assert_null(arena.chunks);
    assert_int_equal(arena.total_bytes, 0);
    assert_non_null(ah_arena_alloc(&arena, 10));
    ah_arena_release(&arena);
}
