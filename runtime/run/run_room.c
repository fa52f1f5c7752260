/* SPDX-License-Identifier: Apache-2.0
 *
 * Room: whether the disk has room for a run's checkpoints, and which option helps if it has not.
 */
#include "runtime/run/run_room.h"

#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t saves_to_come(const struct ah_run *run)
{
    const uint64_t every = run->settings.save_every, end = run->settings.steps, begin = run->resumed_step;
    if (begin >= end)
        return 0;
    return every ? end / every - begin / every + (end % every != 0) : 1;
}

/* Returns the start of an advice: a change of options with which checkpoints fit the disk; "" if there is none. */
static const char *advise_room(const struct ah_run *run)
{
    const uint64_t saves = saves_to_come(run), keep = run->settings.keep;
    struct ah_checkpoints_room least;
    if (!ah_checkpoints_find_room(run->checkpoints, 1 + run->options->keep_best, saves, &least, NULL) &&
        keep != 1 && least.needed_bytes <= least.free_bytes)
        return "give '--keep 1', ";
    if (!ah_checkpoints_find_room(run->checkpoints, keep, 1, &least, NULL) &&
        least.needed_bytes <= least.free_bytes)
        return "save less often, ";
    return "";
}

int ah_run_check_room(struct ah_run *run, struct ah_error *err)
{
    const uint64_t keep = run->settings.keep;
    struct ah_checkpoints_room *room = &run->room;
    char shown[AH_DOCUMENT_NAME_MAX], at_once[64] = "", needed[AH_UNITS_TEXT_MAX], one[AH_UNITS_TEXT_MAX],
                                      available[AH_UNITS_TEXT_MAX];
    if (!run->checkpoints)
        return AH_OK;
    const bool best = run->options->keep_best && keep;
    int rc = ah_checkpoints_find_room(run->checkpoints, keep + best, saves_to_come(run), room, err);
    if (rc || room->needed_bytes <= room->free_bytes)
        return rc;
    if (room->checkpoints > 1)
        snprintf(at_once, sizeof at_once, ", %" PRIu64 " at once of %s", room->checkpoints,
                 ah_units_print_bytes(one, room->one_bytes));
    return ah_error_set(
        err, AH_E_IO,
        "%s: checkpoints will take %s%s, and %s are free there; %smake room, or name a folder on "
        "another disk with '--save'",
        ah_document_short_name(run->save, shown), ah_units_print_bytes(needed, room->needed_bytes), at_once,
        ah_units_print_bytes(available, room->free_bytes), advise_room(run));
}
