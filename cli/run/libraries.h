/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries: which of the libraries that we use are installed, and their versions.
 *
 * The dynamic loader finds each library's version function. So no library's header is needed outside its own room.
 */
#ifndef AH_CLI_RUN_LIBRARIES_H
#define AH_CLI_RUN_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

enum { AH_LIBRARIES_TEXT_MAX = 64 };

struct ah_libraries_row {
    const char *name;
    const char *purpose; /* a clause */
    const char *package; /* name of the package in Debian */
    const char *soname;
    const char *symbol; /* name of the version function */
    void (*print)(char *out,
                  void *function); /* calls `function` and prints the version (AH_LIBRARIES_TEXT_MAX bytes) */
};

extern const struct ah_libraries_row ah_libraries_rows[];
extern const size_t ah_libraries_count;

/* Prints the library's version. Returns false if the library is not installed. */
bool ah_libraries_version(const struct ah_libraries_row *row, char ret_text[AH_LIBRARIES_TEXT_MAX]);

#endif
