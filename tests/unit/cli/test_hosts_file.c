/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading a hosts file, which has one host per line.
 */
#include "runtime/comm/hosts_file.h"

#include "tests/support/check.h"
#include "tests/support/root.h"

#include <limits.h>
#include <stdio.h>

struct scene {
    struct ah_arena arena;
    struct ah_hosts hosts;
    struct ah_error err;
};

static int read(struct scene *scene, void **state, const char *text)
{
    char path[PATH_MAX];
    *scene = (struct scene){.err = {0}};
    root_put(*state, "hosts", text);
    snprintf(path, sizeof path, "%s/hosts", (char *)*state);
    return ah_hosts_read(path, &scene->arena, &scene->hosts, &scene->err);
}

TEST_IN(hosts_file, keeps_the_order_and_counts_slots, root_make, root_remove)
{
    struct scene scene;
    CHECK_OK(read(&scene, state, "# ours\nb slots=3 # left\n\n  10.0.0.7\r\na\tslots=1"), scene.err);
    assert_int_equal(scene.hosts.n, 3);
    assert_string_equal(scene.hosts.entries[0].name, "b");
    assert_int_equal(scene.hosts.entries[0].slots, 3);
    assert_string_equal(scene.hosts.entries[1].name, "10.0.0.7");
    assert_int_equal(scene.hosts.entries[1].slots, 1);
    assert_string_equal(scene.hosts.entries[2].name, "a");
    assert_int_equal(scene.hosts.slots, 5);
    ah_arena_release(&scene.arena);
    CHECK_OK(read(&scene, state, ""), scene.err);
    assert_int_equal(scene.hosts.n, 0);
    ah_arena_release(&scene.arena);
}

TEST_IN(hosts_file, names_a_line_that_is_no_host, root_make, root_remove)
{
    struct scene scene;
    CHECK_FAILS(read(&scene, state, "a\nb slots=0\n"), scene.err, AH_E_USAGE, "line 2: 'slots=0'");
    ah_arena_release(&scene.arena);
    CHECK_FAILS(read(&scene, state, "a slots=2 b\n"), scene.err, AH_E_USAGE, "line 1: ");
    ah_arena_release(&scene.arena);
    CHECK_FAILS(read(&scene, state, "a slots=65537\n"), scene.err, AH_E_USAGE, "above the limit of 65536");
    ah_arena_release(&scene.arena);
    CHECK_FAILS(read(&scene, state, "--prefix\n"), scene.err, AH_E_USAGE, "'--prefix' is not the name");
    ah_arena_release(&scene.arena);
}
