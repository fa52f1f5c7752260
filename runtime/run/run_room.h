/* SPDX-License-Identifier: Apache-2.0
 *
 * Room: whether the disk has room for a run's checkpoints, and which option helps if it has not.
 */
#ifndef AH_RUN_RUN_ROOM_H
#define AH_RUN_RUN_ROOM_H

#include "runtime/run/run.h"

/* Checks before the first step that the disk has room for the checkpoints; fine without any. Sets run->room. Settings
 * and checkpoints must be set. AH_E_IO: there is too little room, with both sizes and what helps; others are those of
 * ah_checkpoints_find_room(). */
int ah_run_check_room(struct ah_run *run, struct ah_error *err);

#endif
