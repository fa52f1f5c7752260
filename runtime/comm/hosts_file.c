/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a hosts file: one host per line.
 */
#include "runtime/comm/hosts_file.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

enum { HOSTS_BYTES_MAX = 1 << 20, SLOTS_MAX = 1 << 16 };

static int read_line(struct ah_hosts *hosts, char *line, const char *path, unsigned number,
                     struct ah_error *err)
{
    char *state = NULL, *end = NULL;
    line[strcspn(line, "#")] = '\0';
    const char *name = strtok_r(line, " \t\r", &state),
               *count = name ? strtok_r(NULL, " \t\r", &state) : NULL;
    unsigned long n = 1;
    if (!name)
        return AH_OK;
    if (name[0] == '-')
        return ah_error_set(err, AH_E_USAGE, "%s: line %u: '%s' is not the name of a host", path, number,
                            name);
    if (count) {
        n = strncmp(count, "slots=", 6) == 0 ? strtoul(count + 6, &end, 10) : 0;
        if (!n || *end || strtok_r(NULL, " \t\r", &state))
            return ah_error_set(err, AH_E_USAGE, "%s: line %u: '%s' is not 'slots=N'; write 'name slots=N'",
                                path, number, count);
    }
    if (n > SLOTS_MAX)
        return ah_error_set(err, AH_E_USAGE, "%s: line %u: '%s' is above the limit of %d", path, number,
                            count, SLOTS_MAX);
    hosts->entries[hosts->n++] = (struct ah_hosts_entry){name, n};
    hosts->slots += n;
    return AH_OK;
}

static size_t lines_of(const char *text)
{
    size_t n = 1;
    for (const char *at = strchr(text, '\n'); at; at = strchr(at + 1, '\n'))
        n++;
    return n;
}

int ah_hosts_read(const char *path, struct ah_arena *arena, struct ah_hosts *ret_hosts, struct ah_error *err)
{
    struct ah_buffer text = {0};
    struct ah_hosts hosts = {0};
    unsigned number = 0;
    int rc = ah_file_read(path, HOSTS_BYTES_MAX, &text, err);
    char *kept = rc ? NULL : ah_arena_strndup(arena, text.data ? text.data : "", text.size);
    ah_buffer_release(&text);
    if (rc)
        return rc;
    hosts.entries = kept ? ah_arena_array(arena, lines_of(kept), sizeof *hosts.entries) : NULL;
    if (!hosts.entries)
        return ah_error_memory(err);
    for (char *line = kept, *next; line && !rc; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        rc = read_line(&hosts, line, path, ++number, err);
    }
    if (!rc)
        *ret_hosts = hosts;
    return rc;
}
