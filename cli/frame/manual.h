/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual: autohete(1) in mdoc, from the tables of verbs and options and the prose of manual.c.
 *
 * docs/autohete.1 is this text; a test keeps them equal.
 */
#ifndef AH_CLI_FRAME_MANUAL_H
#define AH_CLI_FRAME_MANUAL_H

#include "base/buffer.h"
#include "cli/frame/cli.h"

/* Appends the manual page of the program and of `verbs`, which end with NULL. */
void ah_manual_print(const struct ah_verb *const *verbs, struct ah_buffer *out);

#endif
