/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual: autohete(1) in mdoc, made from the tables of verbs and options and the prose of manual.c. A test keeps
 * docs/autohete.1 equal to this text.
 */
#ifndef AH_CLI_FRAME_MANUAL_H
#define AH_CLI_FRAME_MANUAL_H

#include "base/buffer.h"
#include "cli/frame/cli.h"

/* Appends the manual page of the program with `verbs` (NULL-terminated). */
void ah_manual_print(const struct ah_verb *const *verbs, struct ah_buffer *out);

#endif
