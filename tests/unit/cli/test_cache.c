/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the path of a cached machine document against the rules of the XDG base directory specification.
 */
#include "cli/frame/cache.h"
#include "tests/support/check.h"

#include <stdlib.h>
#include <string.h>

static void path_is(const char *cache, const char *home, const char *device, const char *expected)
{
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    const char *path = NULL;
    cache ? setenv("XDG_CACHE_HOME", cache, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    CHECK_OK(ah_cache_path(device, &arena, &path, &err), err);
    assert_string_equal(path, expected);
    ah_arena_release(&arena);
}

TEST(cache, follows_the_specification)
{
    path_is("/var/c", "/home/a", NULL, "/var/c/autohete/machine-cpu.json");
    path_is(NULL, "/home/a", NULL, "/home/a/.cache/autohete/machine-cpu.json");
    path_is("", "/home/a", "cpu", "/home/a/.cache/autohete/machine-cpu.json");
    path_is("relative", "/home/a", "cpu", "/home/a/.cache/autohete/machine-cpu.json");
    path_is("/var/c", NULL, "cuda:1", "/var/c/autohete/machine-cuda-1.json");
    path_is("/a:b", NULL, "cuda:1", "/a:b/autohete/machine-cuda-1.json");
}

TEST(cache, needs_a_home)
{
    struct ah_arena arena = {0};
    struct ah_error err = {0};
    const char *path = NULL;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    CHECK_FAILS(ah_cache_path(NULL, &arena, &path, &err), err, AH_E_FAILED, "use '-o FILE'");
    assert_null(path);
    ah_arena_release(&arena);
}
