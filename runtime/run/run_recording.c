/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the hardware's work in some steps. A step begins in the round before its own, and when a step is reported,
 * two more rounds are already submitted. So recording starts STEPS_AHEAD steps earlier.
 */
#include "runtime/run/run_recording.h"

enum { STEPS_AHEAD = 4 };

static void begin_recording(struct ah_run_recording *recording)
{
    int rc = ah_device_record(recording->device, &recording->why);
    recording->state = rc ? AH_RECORDING_OVER : AH_RECORDING_NOW;
}

void ah_run_recording_start(struct ah_run_recording *recording, uint64_t steps_before)
{
    if (recording->device && steps_before + STEPS_AHEAD >= recording->first_step)
        begin_recording(recording);
}

void ah_run_recording_step(struct ah_run_recording *recording, uint64_t step)
{
    if (!recording->device)
        return;
    if (recording->state == AH_RECORDING_TO_COME && step + STEPS_AHEAD >= recording->first_step)
        begin_recording(recording);
    if (step >= recording->last_step)
        ah_run_recording_end(recording);
}

void ah_run_recording_end(struct ah_run_recording *recording)
{
    if (recording->state != AH_RECORDING_NOW)
        return;
    recording->state = AH_RECORDING_OVER;
    if (ah_device_recorded(recording->device, &recording->recorded, &recording->why))
        recording->recorded = (struct ah_device_recording){0};
}
