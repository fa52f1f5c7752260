/* SPDX-License-Identifier: Apache-2.0
 *
 * Guesses the format of bytes. A function returns true only if data in another format that we read would not look like
 * this by chance. It returns false for too few bytes.
 */
#include "runtime/train/data/format_internal.h"

#include <string.h>

enum { LEAST_BYTES = 64 };

static size_t count_zeros(const unsigned char *bytes, size_t size, size_t first)
{
    size_t zeros = 0;
    for (size_t i = first; i < size; i += 2)
        zeros += !bytes[i];
    return zeros;
}

/* True for a byte order mark, or if each character is one byte with a zero before or after it. */
bool ah_format_is_utf16(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    if (size >= 2 && !(size % 2) && (!memcmp(at, "\xff\xfe", 2) || !memcmp(at, "\xfe\xff", 2)))
        return true;
    size -= size % 2;
    if (size < 8)
        return false;
    size_t even = count_zeros(at, size, 0), odd = count_zeros(at, size, 1);
    return (even == size / 2 && !odd) || (odd == size / 2 && !even);
}

/* True for printable ASCII, line ends, and bytes of UTF-8 beyond ASCII. */
bool ah_format_is_text(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        if ((at[i] < ' ' && !strchr("\t\n\r\f", at[i])) || !at[i] || at[i] == 0x7f)
            return false;
    return size >= LEAST_BYTES;
}

/* True if every second 32-bit word is 0, like the high half of a number below 2^32. */
bool ah_format_is_int64(const void *bytes, size_t size)
{
    const uint32_t *words = bytes;
    uint32_t low = 0, high = 0;
    for (size_t i = 0; i + 1 < size / sizeof *words; i += 2) {
        low |= words[i];
        high |= words[i + 1];
    }
    return size >= LEAST_BYTES && low && !high;
}
