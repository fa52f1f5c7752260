/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the candidate nearest to a mistyped word (nearest.h).
 */
#include "schemas/nearest.h"

#include <stdint.h>
#include <string.h>

enum { NEAREST_LENGTH_MAX = 96 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Returns the optimal string alignment distance, keeping three rows of the table. */
static unsigned edits(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned rows[3][NEAREST_LENGTH_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *now = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *before = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            unsigned change = above[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = least(change, least(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *ah_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *nearest = NULL;
    unsigned fewest = UINT32_MAX;
    size_t length = strlen(word);
    for (size_t i = 0; i < n && length <= NEAREST_LENGTH_MAX; i++) {
        size_t other = strlen(candidates[i]);
        if (other > NEAREST_LENGTH_MAX)
            continue;
        unsigned count = edits(word, length, candidates[i], other);
        unsigned allowed = other < 6 ? 1 : (unsigned)other / 3;
        if (count <= allowed && count < fewest) {
            fewest = count;
            nearest = candidates[i];
        }
    }
    return nearest;
}
