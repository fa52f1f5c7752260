/* SPDX-License-Identifier: Apache-2.0
 *
 * Build id: the linker's digest of this program's code and data. Programs of one version that were built from other
 * sources, or by another compiler, have other ids; a program that was copied or stripped keeps its own.
 *
 *     char text[AH_BUILD_ID_TEXT_MAX];
 *     printf("build %s\n", ah_build_id_read(text));
 */
#ifndef AH_BASE_BUILD_ID_H
#define AH_BASE_BUILD_ID_H

enum { AH_BUILD_ID_TEXT_MAX = 41 };

/* The running program's id in lower-case hexadecimal; "unknown" if its linker gave it none. Returns `ret_text`. */
const char *ah_build_id_read(char ret_text[AH_BUILD_ID_TEXT_MAX]);

#endif
