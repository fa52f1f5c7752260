/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds libraries' versions. The types of their functions are those in cJSON.h, hwloc.h and glpk.h.
 */
#include "cli/run/libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Converts the loader's address to a function. */
union version_function {
    void *address;
    const char *(*text)(void);
    unsigned (*number)(void);
};

static void print_text(char *out, void *function)
{
    union version_function version = {.address = function};
    snprintf(out, AH_LIBRARIES_TEXT_MAX, "%s", version.text());
}

/* Prints the result of hwloc_get_api_version(): 0x00020900 is 2.9.0. */
static void print_hwloc(char *out, void *function)
{
    union version_function version = {.address = function};
    unsigned number = version.number();
    snprintf(out, AH_LIBRARIES_TEXT_MAX, "API %u.%u.%u", number >> 16, number >> 8 & 0xff, number & 0xff);
}

const struct ah_libraries_row ah_libraries_rows[] = {
    {"cJSON", "reads documents", "libcjson1", "libcjson.so.1", "cJSON_Version", print_text},
    {"hwloc", "knows processors and memory", "libhwloc15", "libhwloc.so.15", "hwloc_get_api_version",
     print_hwloc},
    {"GLPK", "solves plans", "libglpk40", "libglpk.so.40", "glp_version", print_text},
};

const size_t ah_libraries_count = sizeof ah_libraries_rows / sizeof ah_libraries_rows[0];

bool ah_libraries_version(const struct ah_libraries_row *row, char ret_text[AH_LIBRARIES_TEXT_MAX])
{
    /* looks in the linked libraries first, because their file names may differ */
    void *function = dlsym(RTLD_DEFAULT, row->symbol);
    void *library = function ? NULL : dlopen(row->soname, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        function = dlsym(library, row->symbol);
    if (function)
        row->print(ret_text, function);
    if (library)
        dlclose(library);
    return function != NULL;
}
