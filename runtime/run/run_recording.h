/* SPDX-License-Identifier: Apache-2.0
 *
 * Run recording: lets a run's device record what its hardware does (runtime/device/device.h), but only during the steps
 * of a trace. A failure to record is stored in `why` and never ends a run.
 *
 *     struct ah_run_recording recording = {.device = device, .first_step = 5, .last_step = 8};
 *     ah_run_recording_start(&recording, steps_before);      // before the run
 *     ... observer's step: ah_run_recording_step(&recording, step);
 *     ah_run_recording_end(&recording);                      // after the run; the device is still open
 *     ... recording.recorded, recording.why
 *
 * Call all functions on the submitter's thread.
 */
#ifndef AH_RUN_RUN_RECORDING_H
#define AH_RUN_RUN_RECORDING_H

#include "runtime/device/device.h"

enum ah_run_recording_state { AH_RECORDING_TO_COME, AH_RECORDING_NOW, AH_RECORDING_OVER };

struct ah_run_recording {
    struct ah_device *device; /* borrowed; NULL: nothing to record */
    uint64_t first_step, last_step;
    enum ah_run_recording_state state;
    struct ah_device_recording recorded; /* the result; zeros if nothing was recorded */
    struct ah_error why;                 /* why nothing was recorded; code 0: no failure */
};

/* Begins recording at once if the first step is near. `steps_before`: number of steps done before this run. */
void ah_run_recording_start(struct ah_run_recording *recording, uint64_t steps_before);

/* Begins or ends recording as step `step` requires. Call it when that step is done; two later ones may be submitted. */
void ah_run_recording_step(struct ah_run_recording *recording, uint64_t step);

/* Ends recording if it has not ended yet. */
void ah_run_recording_end(struct ah_run_recording *recording);

#endif
