/* SPDX-License-Identifier: Apache-2.0
 *
 * Build id: the linker's digest of this program's code and data. Builds of one version from different sources, or by
 * different compilers, have different ids; a copied or stripped program keeps its id.
 *
 *     char text[AH_BUILD_ID_TEXT_MAX];
 *     printf("build %s\n", ah_build_id_read(text));
 */
#ifndef AH_BASE_BUILD_ID_H
#define AH_BASE_BUILD_ID_H

enum { AH_BUILD_ID_TEXT_MAX = 41 };

/* Writes the running program's id in lower-case hexadecimal; "unknown" if it has none. Returns `ret_text`. */
const char *ah_build_id_read(char ret_text[AH_BUILD_ID_TEXT_MAX]);

#endif
