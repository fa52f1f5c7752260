/* SPDX-License-Identifier: Apache-2.0
 *
 * Run recording: lets a run's device record what its hardware does (runtime/device/device.h) while the steps of a trace
 * run, and no longer. What keeps it from that never ends a run: it is kept, to be told.
 *
 *     struct ah_run_recording recording = {.device = device, .first_step = 5, .last_step = 8};
 *     ah_run_recording_start(&recording, steps_before);      // before the run
 *     ... observer's step: ah_run_recording_step(&recording, step);
 *     ah_run_recording_end(&recording);                      // behind the run; the device is still open
 *     ... recording.recorded, recording.why
 *
 * On the submitter's thread.
 */
#ifndef AH_CLI_RUN_RECORDING_H
#define AH_CLI_RUN_RECORDING_H

#include "runtime/device/device.h"

enum ah_run_recording_state { AH_RECORDING_TO_COME, AH_RECORDING_NOW, AH_RECORDING_OVER };

struct ah_run_recording {
    struct ah_device *device; /* borrowed; NULL: nothing is recorded */
    uint64_t first_step, last_step;
    enum ah_run_recording_state state;
    struct ah_device_recording recorded; /* zeros: nothing */
    struct ah_error why;                 /* code 0: nothing went wrong */
};

/* Begins at once where the first step is near. `steps_before`: done before the run. */
void ah_run_recording_start(struct ah_run_recording *recording, uint64_t steps_before);

/* This step is done, and what follows it is submitted already for up to two steps. */
void ah_run_recording_step(struct ah_run_recording *recording, uint64_t step);

/* Ends it, if that has not happened. */
void ah_run_recording_end(struct ah_run_recording *recording);

#endif
