/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests text buffers: what they hold after each append, and that a failure persists until the buffer is cleared.
 */
#include "base/buffer.h"

#include "tests/support/check.h"

#include <string.h>

TEST(buffer, grows_and_ends_with_nul)
{
    struct ah_buffer buffer = {0};
    for (int i = 0; i < 5000; i++) {
        ah_buffer_append(&buffer, "ab", 2);
        assert_int_equal(buffer.data[buffer.size], '\0');
    }
    assert_int_equal(buffer.size, 10000);
    for (int i = 0; i < 5000; i++)
        assert_memory_equal(buffer.data + 2 * i, "ab", 2);
    assert_false(buffer.failed);
    ah_buffer_release(&buffer);
    assert_null(buffer.data);
}

TEST(buffer, prints)
{
    struct ah_buffer buffer = {0};
    char lots[1000];
    memset(lots, 'y', sizeof lots - 1);
    lots[sizeof lots - 1] = '\0';
    ah_buffer_puts(&buffer, "n=");
    ah_buffer_printf(&buffer, "%d %s", 42, lots);
    assert_int_equal(buffer.size, 2 + 3 + 999);
    assert_memory_equal(buffer.data, "n=42 yyy", 8);
    assert_int_equal(strlen(buffer.data), buffer.size);
    ah_buffer_release(&buffer);
}

TEST(buffer, empty_append_gives_an_empty_string)
{
    struct ah_buffer buffer = {0};
    ah_buffer_append(&buffer, NULL, 0);
    assert_string_equal(buffer.data, "");
    ah_buffer_release(&buffer);
}

TEST(buffer, keeps_zero_bytes)
{
    struct ah_buffer buffer = {0};
    ah_buffer_append(&buffer, "a\0b", 3);
    assert_int_equal(buffer.size, 3);
    assert_memory_equal(buffer.data, "a\0b", 4);
    ah_buffer_release(&buffer);
}

TEST(buffer, failure_sticks_until_cleared)
{
    struct ah_buffer buffer = {0};
    ah_buffer_puts(&buffer, "kept");
    assert_false(ah_buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    ah_buffer_puts(&buffer, "dropped");
    ah_buffer_printf(&buffer, "%d", 1);
    assert_string_equal(buffer.data, "kept");
    ah_buffer_clear(&buffer);
    assert_false(buffer.failed);
    ah_buffer_puts(&buffer, "new");
    assert_string_equal(buffer.data, "new");
    ah_buffer_release(&buffer);
}

TEST(buffer, reserve_makes_room)
{
    struct ah_buffer buffer = {0};
    assert_true(ah_buffer_reserve(&buffer, 100000));
    assert_true(buffer.capacity > 100000);
    char *data = buffer.data;
    for (int i = 0; i < 100000; i++)
        ah_buffer_append(&buffer, "z", 1);
    assert_ptr_equal(buffer.data, data);
    ah_buffer_release(&buffer);
}
