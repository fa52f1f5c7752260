/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds libraries' versions. The types of their functions are those in cJSON.h, hwloc.h, glpk.h,
 * pcre2.h and utf8proc.h.
 */
#include "cli/run/libraries.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Converts the loader's address to a function. */
union version_function {
    void *address;
    const char *(*text)(void);
    unsigned (*number)(void);
    int (*setting)(uint32_t, void *);
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

static void print_pcre2(char *out, void *function)
{
    enum { CONFIG_VERSION = 11, VERSION_MAX = 64 };
    union version_function version = {.address = function};
    char text[VERSION_MAX] = "";
    if (version.setting(CONFIG_VERSION, NULL) <= VERSION_MAX)
        version.setting(CONFIG_VERSION, text);
    snprintf(out, AH_LIBRARIES_TEXT_MAX, "%s", text);
}

const struct ah_libraries_row ah_libraries_rows[] = {
    {"cJSON", "reads documents", "libcjson1", "libcjson.so.1", "cJSON_Version", print_text},
    {"hwloc", "knows processors and memory", "libhwloc15", "libhwloc.so.15", "hwloc_get_api_version",
     print_hwloc},
    {"GLPK", "solves plans", "libglpk40", "libglpk.so.40", "glp_version", print_text},
    {"PCRE2", "splits text", "libpcre2-8-0", "libpcre2-8.so.0", "pcre2_config_8", print_pcre2},
    {"utf8proc", "normalizes text", "libutf8proc2", "libutf8proc.so.2", "utf8proc_version", print_text},
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
